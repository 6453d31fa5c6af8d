"""The project file: what it may say, and the one line that each mistake gets."""

from pathlib import Path

import pytest

from adapters.project.file import load_project, notes
from orchestrator.core.errors import OrchestratorError, Refused, Usage
from orchestrator.core.model import Stage
from orchestrator.core.settings import Commands, GitSettings, Project

WHOLE = """\
schema = 1
name = "sample"

[tasks]
source = "local"
path = "tasks.toml"

[commands]
install = []
test = ["python3", "-m", "pytest", "-q"]
lint = "ruff check . && ruff format --check ."

[agent]
command = ["claude"]
permission_mode = "acceptEdits"
allowed_tools = ["Bash(git *)"]
pass_env = ["PGHOST"]
env = {}
oauth_token_file = ""

[agent.models]
default = "sonnet"

[git]
base = "main"
branch_prefix = "orchestrator"
branch = "{prefix}/{run}/{task}"
worktrees = ".worktrees"
worktree = "{run}/{task}"

[stages.implement]
prompt = "prompts/implement.md"
timeout_s = 3600
effort = "high"
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".orchestrator").mkdir()
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "implement.md").write_text("Do {task} … \n", encoding="utf-8")
    write(tmp_path, WHOLE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(repository: Path, text: str) -> Path:
    path = repository / ".orchestrator" / "project.toml"
    path.write_text(text)
    return path


def complaint(spec: str | None = None) -> str:
    with pytest.raises(OrchestratorError) as caught:
        load_project(spec, Path.cwd())
    assert isinstance(caught.value, Usage)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_whole_of_it_becomes_a_project(repository: Path) -> None:
    project = load_project(None, repository)
    assert project.root == str(repository)
    assert project.commands == Commands(
        test=("python3", "-m", "pytest", "-q"),
        lint=("sh", "-c", "ruff check . && ruff format --check ."),
    )
    assert project.git == GitSettings(base="main")
    assert project.models == {"default": "sonnet"}
    assert project.agent.pass_env == ("PGHOST",)
    assert (project.agent.account, project.agent.billing) == ("", "")
    assert project.stage(Stage.IMPLEMENT).prompt == "Do {task} … \n"
    assert project.stage(Stage.IMPLEMENT).timeout_s == 3600.0
    assert project.stage(Stage.REVIEW).prompt is None


def test_a_name_alone_is_enough(repository: Path) -> None:
    write(repository, 'name = "small"')
    project = load_project(None, repository)
    assert project.git.base == "HEAD"
    assert project.agent.command == ("claude",)
    assert project.tasks.path == "tasks.toml"


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ("test =", "tset =", ':10: unknown key "tset" in [commands]; did you mean "test"?'),
        ("[tasks]", "[task]", ':4: unknown key "task"; did you mean "tasks"?'),
        (
            "[stages.implement]",
            "[stages.implemnt]",
            ':31: unknown key "implemnt" in [stages]; did you mean "implement"?',
        ),
        (
            'default = "sonnet"',
            'revue = "sonnet"',
            ':22: unknown key "revue" in [agent.models]; did you mean "review"?',
        ),
        (
            'default = "sonnet"',
            'test = "sonnet"',
            ':22: unknown key "test" in [agent.models]; known: default, implement, review, scope',
        ),
        ("schema = 1", "schema = 2", ":1: schema must be 1, the only version that this program"),
        ('"sample"', '"a b"', ':2: name may not be "a b": letters, digits, dots,'),
        ('name = "sample"', "", ": name is missing"),
        ("install = []", "install = 3", ":9: commands.install must be a list of words or one str"),
        ("install = []", "install = [1]", ":9: commands.install must hold strings only"),
        ("install = []", 'install = [""]', ":9: commands.install begins with an empty word"),
        (
            "timeout_s = 3600",
            'timeout_s = "1h"',
            ":33: stages.implement.timeout_s must be a number, not a string",
        ),
        ("timeout_s = 3600", "timeout_s = true", "timeout_s must be a number, not true or false"),
        ("timeout_s = 3600", "timeout_s = 0", "timeout_s: input should be greater than 0"),
        ("timeout_s = 3600", "timeout_s = inf", "timeout_s: input should be a finite number"),
        ('"high"', '"hihg"', ':34: stages.implement.effort may not be "hihg"; did you mean "high"'),
        (
            '"acceptEdits"',
            '"bypass"',
            ':15: agent.permission_mode may not be "bypass"; did you mean "bypassPermissions"?',
        ),
        ("env = {}", "env = {A = 1}", ":18: agent.env.A must be a string, not the number 1"),
        ("env = {}", 'env = {"A B" = ""}', ':18: agent.env holds "A B", which is no name of an'),
        ("env = {}", 'account = "a/b"', ':18: agent.account may not be "a/b": letters, digits'),
        (
            "env = {}",
            'billing = "subscripton"',
            ':18: agent.billing may not be "subscripton"; did you mean "subscription"?',
        ),
        (
            '["PGHOST"]',
            '["ANTHROPIC_API_KEY"]\nbilling = "subscription"',
            ':13: agent has billing = "subscription" and hands ANTHROPIC_API_KEY on',
        ),
        ('default = "sonnet"', 'default = "--flag"', "agent.models.default is the name of a model"),
        ('default = "sonnet"', f'default = "{"m" * 201}"', 'in one word, not "mmm'),
        (
            "env = {}",
            'fallback_models = ["opus,haiku"]',
            ':18: agent.fallback_models[1] may not be "opus,haiku": one model to an entry',
        ),
        ('["PGHOST"]', '["PG HOST"]', ':17: agent.pass_env[1] may not be "PG HOST": no name of an'),
        ('["PGHOST"]', '"PGHOST"', ":17: agent.pass_env must be a list, not a string"),
        ('"local"', '"loca"', ':5: tasks.source may not be "loca"; did you mean "local"?'),
        (
            '"{prefix}/{run}/{task}"',
            '"{prefix}/{rnu}/{task}"',
            ':27: git.branch knows no placeholder "rnu"; did you mean "run"?',
        ),
        ('"{prefix}/{run}/{task}"', '"{run}"', ':27: git.branch "{run}" must hold {task}, or all'),
        ('"{prefix}/{run}/{task}"', '"{task"', ':27: git.branch "{task" has a brace without its'),
        ('"{prefix}/{run}/{task}"', '"{task}.lock"', ':27: git.branch "t.lock" is no name that gi'),
        ('"{run}/{task}"', '"{run}"', ':29: git.worktree "{run}" must hold {task}, or all tasks'),
        (
            'branch_prefix = "orchestrator"',
            'branch_prefix = "a b"',
            ':26: git.branch_prefix "a b" is no name that git allows for a branch',
        ),
        ("[commands]", "[commands", ":8: not valid TOML: expected ']' at the end of a table decl"),
        ('"main"', '"main', ":25: not valid TOML: illegal character '\\n'"),
        ('effort = "high"', "effort = ", "not valid TOML: invalid value"),
        (
            "implement.md",
            "implemnt.md",
            ':32: stages.implement.prompt: "prompts/implemnt.md": no such file or directory (loo',
        ),
        ("implement.md", "..", ':32: stages.implement.prompt: "prompts/..": is a directory'),
        ("implement.md", "\\u0000", ":32: stages.implement.prompt holds a NUL character"),
        ('"main"', '" "', ":25: git.base may not be empty"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_key_and_remedy(
    repository: Path, written: str, instead: str, told: str
) -> None:
    assert written in WHOLE
    write(repository, WHOLE.replace(written, instead, 1))
    assert complaint().startswith(".orchestrator/project.toml:")
    assert told in complaint()


def test_the_first_mistake_is_told_and_the_others_are_counted(repository: Path) -> None:
    write(repository, WHOLE.replace("[agent]", "[agnet]").replace("base =", "bass ="))
    assert complaint() == (
        '.orchestrator/project.toml:13: unknown key "agnet"; did you mean "agent"? (and 1 more)'
    )


def test_a_stage_without_a_model_has_a_time_only(repository: Path) -> None:
    write(repository, WHOLE + '[stages.test]\nmodel = "opus"\ntimeout_s = 60\n')
    assert complaint().endswith(':36: unknown key "model" in [stages.test]; known: timeout_s')


def test_bytes_that_are_no_text_are_found_by_line(repository: Path) -> None:
    write(repository, "").write_bytes(b'name = "x"\n# \xff\n')
    assert complaint() == ".orchestrator/project.toml:2: not UTF-8 text"


def test_an_empty_prompt_is_refused(repository: Path) -> None:
    (repository / "prompts" / "implement.md").write_text(" \n")
    assert complaint().endswith(':32: stages.implement.prompt: "prompts/implement.md" is empty')


class TestWhichProject:
    def test_none_searches_upwards_to_the_top_of_the_repository(self, repository: Path) -> None:
        below = repository / "src" / "deep"
        below.mkdir(parents=True)
        assert load_project(None, below).name == "sample"

    def test_none_does_not_leave_the_repository(self, repository: Path) -> None:
        inner = repository / "inner"
        (inner / ".git").mkdir(parents=True)
        with pytest.raises(Usage, match=r"inner holds no \.orchestrator/project\.toml: `orch"):
            load_project(None, inner)

    @pytest.mark.parametrize("spec", [".", ".orchestrator/project.toml"])
    def test_a_directory_or_the_file(self, repository: Path, spec: str) -> None:
        project = load_project(spec, repository)
        assert project.root == str(repository)
        assert project.spec == str(repository / ".orchestrator" / "project.toml")

    def test_what_the_project_remembers_leads_back_to_it(self, repository: Path) -> None:
        project = load_project(".", repository)
        assert load_project(project.spec, Path("/")) == project

    def test_a_file_elsewhere_in_the_repository(self, repository: Path) -> None:
        other = repository / "ci" / "nightly.toml"
        other.parent.mkdir()
        other.write_text('name = "nightly"')
        assert load_project("ci/nightly.toml", repository).root == str(repository)

    def test_a_directory_without_one(self, repository: Path) -> None:
        assert complaint("prompts").startswith(
            f"{repository}/prompts holds no .orchestrator/project.toml: `orchestrator init-project`"
        )

    def test_outside_a_repository(self, repository: Path) -> None:
        (repository / ".git").rmdir()
        with pytest.raises(Refused, match="is not the top of a git repository: `git init` it"):
            load_project(".", repository)

    def test_an_unknown_one_says_what_was_tried(self, repository: Path) -> None:
        assert complaint("nope.nothing") == (
            f"no project 'nope.nothing': tried the path {repository}/nope.nothing, the entry points"
            " of orchestrator.project_adapters and the module nope.nothing"
        )
        assert complaint("./nope") == (
            f"no project './nope': tried the path {repository}/nope, the entry points of"
            " orchestrator.project_adapters"
        )

    @pytest.fixture
    def module(self, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.syspath_prepend(str(repository))
        return repository / f"adapter_of_{repository.name}.py"

    def test_a_module(self, module: Path) -> None:
        module.write_text(
            "from orchestrator.core.settings import Project\n"
            "def project():\n    return Project(name='mine', root='/r')\n"
        )
        assert load_project(module.stem, Path("/")) == Project(
            name="mine", root="/r", spec=module.stem
        )

    @pytest.mark.parametrize(
        ("code", "told"),
        [
            ("", "it has no project() that returns a Project"),
            ("project = 3", "it has no project() that returns a Project"),
            ("def project(): return 3", "it has no project() that returns a Project"),
            ("def project(): return 1 / 0", "failed: ZeroDivisionError: division by zero"),
            ("import no_such_library", "failed: ModuleNotFoundError: No module named 'no_such_li"),
        ],
    )
    def test_a_module_that_does_not_work(self, module: Path, code: str, told: str) -> None:
        module.write_text(code)
        assert complaint(module.stem).startswith(f"--project {module.stem}")
        assert told in complaint(module.stem)

    def test_an_entry_point(self, module: Path, repository: Path) -> None:
        module.write_text(
            "from orchestrator.core.settings import Project\n"
            "def project():\n    return Project(name='mine', root='/r')\n"
        )
        installed = repository / "mine-1.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
        (installed / "entry_points.txt").write_text(
            f"[orchestrator.project_adapters]\nours = {module.stem}\n"
        )
        assert load_project("ours", Path("/")).name == "mine"
        assert "(there are: ours)" in complaint("theirs")


class TestNotes:
    def test_what_is_not_done_is_said(self, repository: Path) -> None:
        assert notes(load_project(None, repository)) == (
            "no install command in [commands]: not done",
            "no typecheck command in [commands]: not done",
        )

    def test_bypass_and_secrets_are_said(self, repository: Path) -> None:
        text = WHOLE.replace("acceptEdits", "bypassPermissions")
        write(repository, text.replace("env = {}", 'env = {API_KEY = "x"}'))
        said = "\n".join(notes(load_project(None, repository)))
        assert "permission_mode is bypassPermissions" in said
        assert "[agent.env] sets API_KEY, and the value is kept in the run's journal" in said
