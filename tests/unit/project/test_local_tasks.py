"""Local task files: the one line that each mistake gets, and what the agent form keeps."""

from pathlib import Path

import pytest

from adapters.project.local_tasks import LocalTasks, open_task_source
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.settings import Project, TaskSource


def read(directory: Path, name: str, text: str) -> LocalTasks:
    (directory / name).write_text(text)
    return LocalTasks(directory / name)


def complaint(directory: Path, name: str, text: str) -> str:
    with pytest.raises(Usage) as caught:
        read(directory, name, text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ONE = '[[task]]\nid = "T1"\ntitle = "One"\n'
THREE = '[[task]]\nid = "T3"\ntitle = "Three"\n'
TWO = '[[task]]\nid = "T2"\ntitle = "Two"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ONE + TWO + ONE, ':8: task[3].id "T1" stands twice, first on line 2'),
        (
            ONE + TWO + 'depends_on = ["t1"]',
            ':7: task[2].depends_on names "t1", which is no task of this file; did you mean "T1"?',
        ),
        (
            f'{ONE}depends_on = ["T2"]\n{TWO}depends_on = ["T3"]\n{THREE}depends_on = ["T1"]',
            ":4: tasks depend on each other in a circle: T1 -> T2 -> T3 -> T1",
        ),
        (
            ONE + 'depends_on = ["T1"]',
            ":4: tasks depend on each other in a circle: T1 -> T1",
        ),
        (
            ONE + 'dependson = ["T1"]',
            ':4: unknown key "dependson" in [task[1]]; did you mean "depends_on"?',
        ),
        (ONE.replace('"T1"', '""'), ":2: task[1].id may not be empty"),
        (ONE.replace('"T1"', '"a,b"'), ':2: task[1].id may not be "a,b": no commas, no spaces'),
        (ONE.replace('"T1"', '"a\\nb"'), ':2: task[1].id may not be "a b": no commas, no spaces'),
        (ONE.replace("T1", "x" * 101), ":2: task[1].id may have at most 100 characters, not 101"),
        (ONE.replace('"T1"', "1"), ":2: task[1].id must be a string, not the number 1"),
        (ONE + "body = 3", ":4: task[1].body must be a string, not the number 3"),
        (ONE + 'labels = "x"', ":4: task[1].labels must be a list, not a string"),
        (ONE + 'done = "yes"', ":4: task[1].done must be true or false, not a string"),
        ('[[task]]\nid = "T1"', ":1: task[1].title is missing"),
        (ONE.replace("task", "tasks"), ':1: unknown key "tasks"; did you mean "task"?'),
        ("task = 3", ":1: task must be a list, not the number 3"),
        ("task = [3]", ":1: task[1] must be a table, not the number 3"),
        ("schema = 2", ":1: schema must be 1"),
        ("[[task]", ":1: not valid TOML: expected ']]'"),
        ("a = " + "[" * 5000, ": nested too deeply"),
    ],
)
def test_mistakes_in_toml(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, "tasks.toml", text).startswith(f"tasks.toml{told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"task": [\n{"id": "a", "title": 1}]}', ":2: task[1].title must be a string, not the nu"),
        ('{"task": [\n\t{"id": "a", "name": ""}]}', ':2: unknown key "name" in [task[1]]'),
        ('{"task": [\n{"id": "a",\n"id": "b"}]}', ':3: the key "id" stands twice'),
        ('{"task": [\n', ":2: not valid JSON: expecting value"),
        ("[]", ':1: must be a table with a list named "task"'),
        ('{"tasks": [\n{"id": ""}]}', ":2: tasks[1].id may not be empty"),
        ('{"tasks": [\n{"id": "a", "status": "runing"}]}', ':2: tasks[1].status may not be "runin'),
        ('{"tasks": [{"id": "a", "prompt": 1}]}', ":1: tasks[1].prompt must be a string, not the"),
        ('{"tasks": [{"id": "a"}],\n"max_concurrent": 0}', ":2: max_concurrent: input should be g"),
        ('{"tasks": [{"id": "a"},\n{"id": "a"}]}', ':2: tasks[2].id "a" stands twice, first on l'),
        (
            '{"tasks": [{"id": "a", "dependencies": ["b"]},\n{"id": "b", "depends_on": ["a"]}]}',
            ":1: tasks depend on each other in a circle: a -> b -> a",
        ),
        ("[" * 200_000, ": nested too deeply"),
    ],
)
def test_mistakes_in_json(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, "tasks.json", text).startswith(f"tasks.json{told}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("task:\n- id: 12\n  title: x", ":2: task[1].id must be a string, not the number 12"),
        (
            "task:\n- id: a\n  titel: x",
            ':3: unknown key "titel" in [task[1]]; did you mean "title"',
        ),
        ("task:\n- id: a\n  title: x\n  id: b", ':4: the key "id" stands twice'),
        ("task:\n- id: a\n   title: x", ":3: not valid YAML: mapping values are not allowed"),
        ("", ':1: must be a table with a list named "task"'),
        ("1: x", ": the key 1 must be a string: quote it"),
        ("task: 2001-99-99", ": not valid YAML: month must be in 1..12"),
        ("task: !!python/name:os.system x", ":1: not valid YAML: could not determine a constructo"),
        ("task: &a [*a]", ":1: task[1] must be a table, not a list"),
    ],
)
def test_mistakes_in_yaml(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, "tasks.yaml", text).startswith(f"tasks.yaml{told}")


def test_an_ending_that_means_nothing(tmp_path: Path) -> None:
    assert complaint(tmp_path, "tasks.txt", "") == (
        'tasks.txt: a task file is .toml, .json, .yaml or .yml, not ".txt"'
    )


def test_agent_tasks_without_a_list(tmp_path: Path) -> None:
    assert complaint(tmp_path, ".agent-tasks.json", "{}") == ".agent-tasks.json: tasks is missing"


def test_the_agent_form_keeps_what_it_does_not_know(tmp_path: Path) -> None:
    text = """{"max_concurrent": 3, "tasks": [
        {"id": "a", "prompt": "\\n Do it \\nnow", "description": "why", "status": "running",
         "branch": "agent/a", "worktree": ".worktrees/a", "container_id": "c1", "priority": [1]},
        {"id": "b", "description": "B", "dependencies": ["a"], "depends_on": ["a", "c"]},
        {"id": "c", "title": "C", "status": "completed"}]}"""
    a, b, c = read(tmp_path, ".agent-tasks.json", text).all()
    assert (a.title, a.body, a.done) == ("Do it", "\n Do it \nnow", False)
    assert a.extra == {
        "description": "why",
        "status": "running",
        "branch": "agent/a",
        "worktree": ".worktrees/a",
        "container_id": "c1",
        "priority": [1],
    }
    assert (b.body, b.depends_on, b.extra) == ("B", ("a", "c"), {})
    assert (c.title, c.body, c.done) == ("C", "", True)


def test_ten_thousand_tasks_in_a_chain(tmp_path: Path) -> None:
    text = ONE + "".join(
        f'[[task]]\nid = "T{n}"\ntitle = "x"\ndepends_on = ["T{n - 1}"]\n' for n in range(2, 10_001)
    )
    assert len(read(tmp_path, "tasks.toml", text).all()) == 10_000


def test_a_name_far_from_all_of_many_lists_none(tmp_path: Path) -> None:
    source = read(tmp_path, "tasks.toml", "".join(ONE.replace("T1", f"T{n}") for n in range(99)))
    with pytest.raises(Refused, match=r'^no task "something" in tasks\.toml$'):
        source.fetch("something")


class TestOpening:
    def project(self, root: Path, source: TaskSource) -> Project:
        return Project(name="x", root=str(root), spec="project.toml", tasks=source)

    def test_the_path_is_relative_to_the_repository(self, tmp_path: Path) -> None:
        (tmp_path / "plan").mkdir()
        (tmp_path / "plan" / "t.toml").write_text(ONE)
        project = self.project(tmp_path, TaskSource(path="plan/t.toml"))
        assert open_task_source(project).fetch("T1").title == "One"

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(Usage) as caught:
            open_task_source(self.project(tmp_path, TaskSource(path="tasks.toml")))
        assert str(caught.value) == (
            "tasks.toml does not exist: [tasks] path of project.toml names it"
        )

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(Usage, match="is a directory"):
            open_task_source(self.project(tmp_path, TaskSource(path=".")))

    def test_github_comes_later(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match=r'^\[tasks\] source = "github" comes later'):
            open_task_source(self.project(tmp_path, TaskSource(kind="github")))
