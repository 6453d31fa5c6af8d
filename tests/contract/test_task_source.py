"""What every task source keeps to, whichever way its tasks are written down."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.project.local_tasks import LocalTasks
from orchestrator.core.errors import Refused
from orchestrator.core.model import TaskId
from orchestrator.ports.tasks import SourceTask, TaskSource

Make = Callable[[Path, Sequence[SourceTask]], TaskSource]

BODY = (
    "First line\n\n  indented\ttab\r\n"
    'quotes " \'\'\' """ back\\slash é \u2028 \U0001f600 # no comment'
)
TASKS = (
    SourceTask(id=TaskId("#12"), title="Add a slug function", body=BODY, labels=("a", "b c")),
    SourceTask(id=TaskId("T2"), title='The "second"', depends_on=(TaskId("#12"),), done=True),
    SourceTask(
        id=TaskId("ü"), title="Third", body="x", depends_on=(TaskId("T2"), TaskId("#12"))
    ),
)  # fmt: skip


def in_toml(directory: Path, tasks: Sequence[SourceTask]) -> TaskSource:
    def tables() -> str:
        return "\n".join(
            "[[task]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in row.items())
            for row in map(as_row, tasks)
        ).replace("\\ud83d\\ude00", "\\U0001F600")

    (directory / "tasks.toml").write_text(tables())
    return LocalTasks(directory / "tasks.toml")


def in_json(directory: Path, tasks: Sequence[SourceTask]) -> TaskSource:
    (directory / "tasks.json").write_text(json.dumps({"task": [as_row(task) for task in tasks]}))
    return LocalTasks(directory / "tasks.json")


def in_yaml(directory: Path, tasks: Sequence[SourceTask]) -> TaskSource:
    # The lines of a scalar are JSON, which is YAML; the dumper is slow with a megabyte.
    rows = [
        "\n  ".join(f"{key}: {json.dumps(value)}" for key, value in as_row(task).items())
        for task in tasks
    ]
    listed = "\n".join(f"- {row}" for row in rows).replace("\\ud83d\\ude00", "\\U0001F600")
    (directory / "tasks.yaml").write_text(f"schema: 1\ntask:\n{listed or '  []'}\n")
    return LocalTasks(directory / "tasks.yaml")


def in_agent_tasks(directory: Path, tasks: Sequence[SourceTask]) -> TaskSource:
    rows = [
        {
            "id": task.id,
            "title": task.title,
            "prompt": task.body,
            "dependencies": list(task.depends_on),
            "labels": list(task.labels),
            "status": "completed" if task.done else "pending",
        }
        for task in tasks
    ]
    (directory / ".agent-tasks.json").write_text(json.dumps({"max_concurrent": 3, "tasks": rows}))
    return LocalTasks(directory / ".agent-tasks.json")


def as_row(task: SourceTask) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "body": task.body,
        "depends_on": list(task.depends_on),
        "labels": list(task.labels),
        "done": task.done,
    }


@pytest.fixture(params=[in_toml, in_json, in_yaml, in_agent_tasks])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def described(task: SourceTask) -> dict[str, Any]:
    """A task without what its source alone knows."""
    return as_row(task)


def test_all_tasks_in_the_order_of_the_source(make: Make, tmp_path: Path) -> None:
    assert list(map(described, make(tmp_path, TASKS).all())) == list(map(described, TASKS))


def test_one_task_by_its_name(make: Make, tmp_path: Path) -> None:
    source = make(tmp_path, TASKS)
    assert described(source.fetch("#12")) == described(TASKS[0])
    assert source.fetch("ü").depends_on == ("T2", "#12")


def test_the_body_is_kept_byte_for_byte(make: Make, tmp_path: Path) -> None:
    assert make(tmp_path, TASKS).fetch("#12").body == BODY


def test_a_body_of_a_megabyte(make: Make, tmp_path: Path) -> None:
    body = "é \u2028 line\n" * 100_000
    task = SourceTask(id=TaskId("T1"), title="Long", body=body)
    assert make(tmp_path, [task]).fetch("T1").body == body


def test_an_unknown_name_is_refused_with_the_nearest(make: Make, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r'^no task "12" in \S+; did you mean "#12"\?$'):
        make(tmp_path, TASKS).fetch("12")


def test_no_tasks_at_all(make: Make, tmp_path: Path) -> None:
    assert list(make(tmp_path, []).all()) == []
