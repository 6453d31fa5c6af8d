"""The task source that is a file in the repository.

The file is read and checked as a whole when it is opened: whoever holds a LocalTasks holds
tasks with distinct ids whose dependencies exist and have no cycle.
"""

import graphlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from adapters.project.document import read_document
from adapters.project.mistakes import LineOf, at, did_you_mean, key_name, usage_of
from adapters.project.schema import SCHEMA, Items, Positive, Table, Text, Version, one_of, wrong
from adapters.project.text import shown_path
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.model import TaskId
from orchestrator.core.settings import Project
from orchestrator.ports.tasks import SourceTask, TaskSource

STATUSES = ("pending", "running", "completed", "failed", "blocked")
ID_CHARACTERS_MAX = 100


def open_task_source(project: Project) -> TaskSource:
    """The task source that the project file names.  Raises Refused, or Usage for a bad file."""
    if project.tasks.kind == "github":
        raise Refused('[tasks] source = "github" comes later; "local" reads a file')
    path = Path(project.root, project.tasks.path)
    if not path.exists():
        raise Usage(f"{shown_path(path)} does not exist: [tasks] path of {project.spec} names it")
    return LocalTasks(path)


class LocalTasks:
    def __init__(self, path: Path) -> None:
        self._shown = shown_path(path)
        self._tasks = {task.id: task for task in _read(path, self._shown)}

    def fetch(self, ref: str) -> SourceTask:
        if (task := self._tasks.get(TaskId(ref))) is not None:
            return task
        raise Refused(f'no task "{ref}" in {self._shown}{did_you_mean(ref, self._tasks)}')

    def all(self) -> Sequence[SourceTask]:
        return tuple(self._tasks.values())


def _id(value: str) -> str:
    if value != value.strip() or "," in value or not value.isprintable():
        raise wrong(f'may not be "{value}": no commas, no spaces around it, in one line')
    if len(value) > ID_CHARACTERS_MAX:
        raise wrong(f"may have at most {ID_CHARACTERS_MAX} characters, not {len(value)}")
    return value


Id = Annotated[Text, AfterValidator(_id)]


class TaskTable(Table):
    id: Id
    title: Text
    body: str = ""
    depends_on: Items[Id] = ()
    labels: Items[Text] = ()
    budget_usd: Positive | None = None
    done: bool = False


class TaskFile(Table):
    version: Version = SCHEMA
    task: Items[TaskTable] = ()


class AgentTask(Table):
    """A task of an ``.agent-tasks.json``.  Its unknown fields are kept."""

    model_config = ConfigDict(extra="allow")
    id: Id
    title: Text | None = None
    prompt: str | None = None
    description: str | None = None
    depends_on: Items[Id] = ()
    dependencies: Items[Id] = ()
    labels: Items[Text] = ()
    status: Annotated[str, one_of(*STATUSES)] = "pending"
    branch: str | None = None
    worktree: str | None = None
    container_id: str | None = None
    host: str | None = None


class AgentTasksFile(Table):
    model_config = ConfigDict(extra="allow")
    max_concurrent: Annotated[int, Field(ge=1)] | None = None
    tasks: Items[AgentTask]


class _Listed(NamedTuple):
    key: str
    """The name of the list in the file: ``task`` or ``tasks``."""
    tasks: tuple[SourceTask, ...]


def _read(path: Path, shown: str) -> tuple[SourceTask, ...]:
    values, line_of = read_document(path, shown)
    if not isinstance(values, dict):
        raise Usage(at(shown, 1, 'must be a table with a list named "task"'))
    agents = path.suffix != ".toml" and ("tasks" in values or path.name == ".agent-tasks.json")
    shape = AgentTasksFile if agents else TaskFile
    try:
        parsed = shape.model_validate(values)
    except ValidationError as error:
        raise usage_of(error, shape, shown, line_of) from error
    match parsed:
        case AgentTasksFile(tasks=tasks):
            listed = _Listed("tasks", tuple(map(_from_agent_task, tasks)))
        case TaskFile(task=tasks):
            listed = _Listed("task", tuple(map(_from_table, tasks)))
    _check_graph(listed, shown, line_of)
    return listed.tasks


def _from_table(task: TaskTable) -> SourceTask:
    return SourceTask(
        id=TaskId(task.id),
        title=task.title,
        body=task.body,
        depends_on=_distinct(task.depends_on),
        labels=tuple(task.labels),
        budget_usd=task.budget_usd,
        done=task.done,
    )


def _from_agent_task(task: AgentTask) -> SourceTask:
    body = task.prompt if task.prompt is not None else task.description
    first_line = (body or "").strip().partition("\n")[0].rstrip()
    said = task.model_dump(exclude_unset=True)
    used = {"id", "title", "depends_on", "dependencies", "labels"}
    used.add("prompt" if task.prompt is not None else "description")
    return SourceTask(
        id=TaskId(task.id),
        title=task.title or first_line or task.id,
        body=body or "",
        depends_on=_distinct([*task.depends_on, *task.dependencies]),
        labels=tuple(task.labels),
        done=task.status == "completed",
        extra={key: value for key, value in said.items() if key not in used},
    )


def _distinct(ids: Sequence[str]) -> tuple[TaskId, ...]:
    return tuple(TaskId(name) for name in dict.fromkeys(ids))


def _check_graph(listed: _Listed, shown: str, line_of: LineOf) -> None:
    positions: dict[TaskId, int] = {}
    for index, task in enumerate(listed.tasks):
        if (first := positions.setdefault(task.id, index)) != index:
            line = line_of((listed.key, first, "id"))
            before = f", first on line {line}" if line else ""
            where: tuple[Any, ...] = (listed.key, index, "id")
            what = f'{key_name(where)} "{task.id}" stands twice{before}'
            raise Usage(at(shown, line_of(where), what))
    for index, task in enumerate(listed.tasks):
        for name in task.depends_on:
            if name not in positions:
                where = (listed.key, index, "depends_on")
                what = f'{key_name(where)} names "{name}", which is no task of this file'
                raise Usage(at(shown, line_of(where), what + did_you_mean(name, positions)))
    try:
        graphlib.TopologicalSorter({task.id: task.depends_on for task in listed.tasks}).prepare()
    except graphlib.CycleError as error:
        cycle = tuple(reversed(error.args[1]))
        line = line_of((listed.key, positions[cycle[0]], "depends_on"))
        path = " -> ".join(cycle)
        raise Usage(at(shown, line, f"tasks depend on each other in a circle: {path}")) from error
