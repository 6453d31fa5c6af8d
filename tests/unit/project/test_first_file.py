"""What a look at a repository finds; and that the file written from it can be read again."""

from pathlib import Path

import pytest

from adapters.project.file import read_project_file
from adapters.project.first_file import TASKS_TEXT, propose
from adapters.project.local_tasks import LocalTasks
from adapters.project.look import look

VENV = "python3 -m venv .venv && echo '*' > .venv/.gitignore && .venv/bin/pip install -q "
PYPROJECT = '[build-system]\nrequires = []\n[project]\nname = "x"\n'
NODE = "JavaScript or TypeScript"
ESLINT = '{"scripts": {"test": "jest", "lint": "eslint .", "typecheck": "tsc"}}'

REPOSITORIES = [
    ({}, None, "", ""),
    ({"tests/test_a.py": "import unittest"}, "Python", "", "python3 -m unittest discover -s tests"),
    (
        {"tests/__init__.py": "", "tests/test_a.py": "from unittest import TestCase"},
        "Python",
        "",
        "python3 -m unittest discover",
    ),
    ({"tests/test_a.py": "def test_a(): ..."}, "Python", "", "python3 -m pytest -q"),
    ({"pytest.ini": "", "setup.cfg": ""}, "Python", "", "python3 -m pytest -q"),
    (
        {"pyproject.toml": PYPROJECT + "[tool.pytest.ini_options]\n"},
        "Python",
        VENV + "-e . pytest",
        ".venv/bin/python -m pytest -q",
    ),
    (
        {
            "pyproject.toml": PYPROJECT
            + '[project.optional-dependencies]\ndev = ["pytest>=8", "ruff", "mypy"]\n[tool.mypy]\n'
        },
        "Python",
        VENV + "-e '.[dev]'",
        ".venv/bin/python -m pytest -q",
    ),
    (
        {"requirements.txt": "attrs\n", "requirements-dev.txt": "pytest\n"},
        "Python",
        VENV + "-r requirements-dev.txt -r requirements.txt",
        ".venv/bin/python -m pytest -q",
    ),
    ({"setup.py": "", "uv.lock": "", "conftest.py": ""}, "Python", "uv sync", "uv run pytest -q"),
    (
        {"pyproject.toml": "", "poetry.lock": "", "tests/test_a.py": "import unittest"},
        "Python",
        "poetry install",
        "poetry run python -m unittest discover -s tests",
    ),
    ({"tox.ini": ""}, "Python", "", "tox -q"),
    ({"pyproject.toml": "not = [toml"}, "Python", "", ""),
    ({"pyproject.toml": "tool = 3\nproject = []"}, "Python", "", ""),
    ({"package.json": ESLINT}, NODE, "npm install", "npm run test"),
    ({"package.json": ESLINT, "package-lock.json": ""}, NODE, "npm ci", "npm run test"),
    (
        {"package.json": ESLINT, "pnpm-lock.yaml": ""},
        NODE,
        "pnpm install --frozen-lockfile",
        "pnpm run test",
    ),
    (
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        NODE,
        "npm install",
        "",
    ),
    ({"package.json": "{"}, NODE, "npm install", ""),
    ({"Cargo.toml": ""}, "Rust", "", "cargo test"),
    ({"go.mod": ""}, "Go", "", "go test ./..."),
    ({"pom.xml": ""}, "Java (Maven)", "", "mvn -q test"),
    ({"mvnw": "", "pom.xml": ""}, "Java (Maven)", "", "./mvnw -q test"),
    ({"gradlew": "", "build.gradle": ""}, "Java (Gradle)", "", "./gradlew test"),
    ({"Rakefile": ""}, "Ruby", "bundle install", "bundle exec rake"),
    (
        {"Gemfile": "", "Rakefile": "", "spec/a_spec.rb": ""},
        "Ruby",
        "bundle install",
        "bundle exec rspec",
    ),
    ({"Makefile": "all:\n\ntest: all\n\tcc\n"}, "Makefile targets", "", "make test"),
    ({"Makefile": "test := x\nall:\n"}, None, "", ""),
    ({"scripts/test": ""}, "its own scripts", "", "scripts/test"),
    ({"setup.py": "", "Makefile": "test:\n"}, "Makefile targets", "", "make test"),
]  # fmt: skip


@pytest.fixture(params=REPOSITORIES, ids=lambda it: "+".join(it[0]) or "nothing")
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str | None, str, str]:
    files, language, install, test = request.param
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path, language, install, test


def test_what_is_seen(case: tuple[Path, str | None, str, str]) -> None:
    root, language, install, test = case
    found = look(root)
    if language is None:
        assert found == ()
        return
    commands = found[0].commands
    words = commands.install[2:] if commands.install[:1] == ("sh",) else commands.install
    assert (found[0].language, " ".join(words)) == (language, install)
    assert " ".join(commands.test) == test


def test_the_proposed_file_is_valid_and_says_what_was_seen(
    case: tuple[Path, str | None, str, str],
) -> None:
    root = case[0]
    proposal = propose(root, current_branch='ma"in', branches=['ma"in'])
    (root / "project.toml").write_text(proposal.project_text)
    project = read_project_file(root / "project.toml", root)
    assert project.commands == proposal.commands
    assert project.git.base == 'ma"in'
    assert ("no test command found: write one into [commands] test" in proposal.notes) == (
        not project.commands.test
    )


def test_linters_are_used_where_they_are_declared(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        PYPROJECT + '[project.optional-dependencies]\ndev = ["ruff", "mypy"]\n[tool.mypy]\n'
    )
    commands = look(tmp_path)[0].commands
    assert commands.lint == (".venv/bin/python", "-m", "ruff", "check", ".")
    assert commands.typecheck == (".venv/bin/python", "-m", "mypy")


def test_a_branch_in_the_way_moves_the_prefix(tmp_path: Path) -> None:
    proposal = propose(tmp_path, current_branch="main", branches=["main", "orchestrator"])
    assert proposal.branch_prefix == "orchestrated"
    assert any("in the way" in note for note in proposal.notes)


def test_a_detached_head_leaves_the_base_open(tmp_path: Path) -> None:
    proposal = propose(tmp_path, current_branch=None, branches=[])
    (tmp_path / "project.toml").write_text(proposal.project_text)
    assert read_project_file(tmp_path / "project.toml", tmp_path).git.base == "HEAD"


def test_agent_tasks_are_used_where_they_are(tmp_path: Path) -> None:
    (tmp_path / ".agent-tasks.json").write_text("{}")
    assert propose(tmp_path, current_branch="m", branches=[]).tasks_path == ".agent-tasks.json"


@pytest.mark.parametrize("name", ["a b!", "-x", "...", "ü"])
def test_any_directory_gives_a_name_that_is_allowed(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    (root / "project.toml").write_text(propose(root, current_branch="m", branches=[]).project_text)
    assert read_project_file(root / "project.toml", root).name


def test_the_example_tasks_are_none(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(TASKS_TEXT)
    assert LocalTasks(tmp_path / "tasks.toml").all() == ()


def test_the_example_tasks_are_right_when_their_marks_are_taken_away(tmp_path: Path) -> None:
    example = [line[2:] for line in TASKS_TEXT.splitlines()[2:]]
    (tmp_path / "tasks.toml").write_text("\n".join(example))
    (task,) = LocalTasks(tmp_path / "tasks.toml").all()
    assert task.id == "T1"


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("pyproject.toml", '[project]\nname = "py-name"\n', "py-name"),
        ("pyproject.toml", '[tool.poetry]\nname = "poetic"\n', "poetic"),
        ("package.json", '{"name": "@scope/node name"}', "scope-node-name"),
        ("Cargo.toml", '[package]\nname = "crate"\n', "crate"),
        ("pyproject.toml", "[project]\nname = 3\n", "directory"),
        ("package.json", "[]", "directory"),
    ],
)
def test_a_project_is_called_what_it_calls_itself(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    root = tmp_path / "directory"
    root.mkdir()
    (root / file).write_text(text)
    assert propose(root, current_branch="main", branches=["main"]).name == name


def test_a_second_sign_of_what_was_chosen_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    for file in ("gradlew", "build.gradle", "Cargo.toml"):
        (tmp_path / file).write_text("")
    notes = propose(tmp_path, current_branch="main", branches=["main"]).notes
    assert len(notes) == 1
    assert "Gradle" not in notes[0] or "Rust" not in notes[0]


def test_rust_is_linted(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("")
    lint = propose(tmp_path, current_branch="main", branches=["main"]).commands.lint
    assert lint[:2] == ("cargo", "clippy")
