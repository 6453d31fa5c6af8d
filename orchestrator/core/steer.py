"""What a person's command turns into: events, or a refusal that says why.

Every function takes the present state and returns what is to be committed on it; nothing is
half done.  What is already so returns nothing.
"""

import shlex
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.core.errors import Refused
from orchestrator.core.events import (
    CascadeBlocked,
    KnownEvent,
    RunPaused,
    RunUnpaused,
    SettingsChanged,
    StopRequested,
    TaskAbandoned,
    TaskAdded,
    TaskChanged,
    TaskRequeued,
)
from orchestrator.core.graph import DOOMED, doomed_dependents, find_cycle
from orchestrator.core.model import Pipeline, Record, TaskId, TaskStatus
from orchestrator.core.options import changes_of, task_changes_of
from orchestrator.core.slug import slug_of
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.words import in_words, nearest

_REQUEUABLE = DOOMED | {TaskStatus.HELD, TaskStatus.COMPLETED}
KNOWN_MAX = 8
_PAST_GIVING_UP = frozenset({TaskStatus.COMPLETED, TaskStatus.REJECTED, TaskStatus.SUPERSEDED})


class NewTask(Record, frozen=True, kw_only=True):
    """A task as its source and the command line describe it."""

    id: TaskId
    title: str
    body: str = ""
    depends_on: tuple[TaskId, ...] = ()
    pipeline: Pipeline | None = None
    model: str | None = None
    effort: str | None = None
    budget_usd: float | None = None
    labels: tuple[str, ...] = ()
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


def add_tasks(
    state: RunState, tasks: Sequence[NewTask], *, done: Collection[TaskId] = ()
) -> list[KnownEvent]:
    """``done``: dependencies that the source reports done.  All of the tasks, or none."""
    new = {task.id: task for task in tasks}
    for task in tasks:
        if task.id in state.tasks:
            raise Refused(f"{task.id} is in the run already; `requeue` does a task again")
    _no_cycle(state, new)
    taken = set(state.slugs)
    events: list[KnownEvent] = []
    for task in new.values():
        slug = slug_of(task.id, taken)
        taken.add(slug)
        depends_on = tuple(dict.fromkeys(task.depends_on))
        events.append(
            TaskAdded(
                task_id=task.id,
                slug=slug,
                title=task.title,
                body=task.body,
                depends_on=depends_on,
                satisfied=tuple(
                    d for d in depends_on if d in done and d not in new and d not in state.tasks
                ),
                pipeline=task.pipeline,
                model=task.model,
                effort=task.effort,
                budget_usd=task.budget_usd,
                labels=task.labels,
                extra=dict(task.extra),
            )
        )
    return events + _blocked_from_the_start(state, new)


def change_settings(
    state: RunState, pairs: Mapping[str, str], *, by: str, reason: str = ""
) -> list[KnownEvent]:
    """``pairs``: setting -> text, as a person wrote it."""
    changes = changes_of(state.settings, pairs)
    return [SettingsChanged(changes=changes, by=by, reason=reason)] if changes else []


def change_task(
    state: RunState, name: str, pairs: Mapping[str, str], *, by: str, reason: str = ""
) -> list[KnownEvent]:
    """Of one task, from its next dispatch on."""
    task = find_task(state, name)
    changes = task_changes_of(task, pairs, reason)
    if changes.get("paused") and task.status.is_terminal:
        raise Refused(f"{task.id} is {in_words(task.status)}: there is nothing of it to pause")
    return [TaskChanged(task_id=task.id, changes=changes, by=by, reason=reason)] if changes else []


def pause(state: RunState, *, reason: str, by: str) -> list[KnownEvent]:
    require_open(state)
    return [] if state.paused is not None else [RunPaused(reason=reason, by=by)]


def unpause(state: RunState, *, by: str) -> list[KnownEvent]:
    require_open(state)
    return [] if state.paused is None else [RunUnpaused(by=by)]


def raise_budget(state: RunState, text: str, *, by: str) -> list[KnownEvent]:
    present = state.settings.budget_usd
    changes = changes_of(state.settings, {"budget_usd": text})
    if changes and (present is None or (changes["budget_usd"] or present) < present):
        has = "no budget" if present is None else f"a budget of {present:g} USD"
        raise Refused(f"run {state.run_id} has {has}: {text} does not raise it; `set` lowers it")
    return [SettingsChanged(changes=changes, by=by)] if changes else []


def stop(state: RunState, *, how: str, by: str) -> list[KnownEvent]:
    """``how``: drain or now.  A stop at once is never taken back to a drain."""
    require_open(state)
    if state.stop_requested in (how, "now"):
        return []
    return [StopRequested(how=how, by=by)]


def requeue(state: RunState, tasks: Sequence[str], *, reason: str) -> list[KnownEvent]:
    again = [find_task(state, name) for name in tasks]
    ids = {task.id for task in again}
    for task in again:
        if task.status not in _REQUEUABLE:
            raise Refused(
                f"{task.id} is {in_words(task.status)}: only a task that has ended, or is held,"
                " can be done again"
            )
        for dependency in task.depends_on:
            other = state.tasks.get(dependency)
            if other is not None and other.status in DOOMED and dependency not in ids:
                raise Refused(
                    f"{task.id} depends on {dependency}, which is {in_words(other.status)}:"
                    f" {shlex.join(('requeue', dependency))} too"
                )
    return [TaskRequeued(task_id=t.id, round=t.round + 1, reason=reason) for t in again]


def abandon(
    state: RunState, tasks: Sequence[str], *, reason: str, live: Collection[TaskId]
) -> list[KnownEvent]:
    """``live``: tasks for which a process of ours runs."""
    given_up = [find_task(state, name) for name in tasks]
    for task in given_up:
        if task.status in _PAST_GIVING_UP:
            again = "" if task.status is TaskStatus.SUPERSEDED else ": `requeue` does it again"
            raise Refused(f"{task.id} is {in_words(task.status)} already{again}")
        if task.id in live:
            raise Refused(
                f"{task.id} has a process at work on {task.stage}: stop the run first"
                f" (orchestrator --run {state.run_id} stop --now)"
            )
    events: list[KnownEvent] = [
        TaskAbandoned(
            task_id=task.id,
            reason=reason,
            work_item_id=task.lease.work_item_id if task.lease else None,
        )
        for task in given_up
    ]
    because: dict[TaskId, TaskId] = {}
    for task in given_up:
        for dependent in doomed_dependents(state, task.id):
            because.setdefault(dependent, task.id)
    for task in given_up:
        because.pop(task.id, None)
    return events + [CascadeBlocked(task_id=each, because=root) for each, root in because.items()]


def find_task(state: RunState, name: str) -> TaskState:
    """By its id, or by its slug."""
    task = state.tasks.get(TaskId(name))
    if task is None and name in state.slugs:
        task = state.tasks[state.slugs[name]]
    if task is None:
        near = nearest(name, state.tasks) or _known_tasks(state)
        raise Refused(f"run {state.run_id} has no task {name}{near}")
    return task


def _known_tasks(state: RunState) -> str:
    first = list(state.tasks)[:KNOWN_MAX]
    more = ", …" if len(state.tasks) > KNOWN_MAX else ""
    return f"; there are {', '.join(first)}{more}" if first else ": it has none yet"


def require_open(state: RunState) -> None:
    if state.finalized is not None:
        raise Refused(
            f"run {state.run_id} has ended: it is {in_words(state.finalized)}; `requeue TASK` opens"
            " it again"
        )


def _no_cycle(state: RunState, new: Mapping[TaskId, NewTask]) -> None:
    depends_on = {task.id: task.depends_on for task in state.tasks.values()}
    depends_on.update((task.id, task.depends_on) for task in new.values())
    if cycle := find_cycle(depends_on):
        raise Refused(f"the tasks would wait for each other: {' -> '.join(cycle)}")


def _blocked_from_the_start(state: RunState, new: Mapping[TaskId, NewTask]) -> list[KnownEvent]:
    """What is added behind a task that has ended badly will never start, nor what waits for it."""
    because: dict[TaskId, TaskId] = {}
    for task in new.values():
        for dependency in task.depends_on:
            ended = state.tasks.get(dependency)
            if ended is not None and ended.status in DOOMED:
                because.setdefault(task.id, dependency)
    behind: dict[TaskId, list[TaskId]] = {}
    for task in new.values():
        for dependency in task.depends_on:
            behind.setdefault(dependency, []).append(task.id)
    queue = deque(because)
    while queue:
        blocked = queue.popleft()
        for dependent in (*behind.get(blocked, ()), *state.dependents.get(blocked, ())):
            if dependent in because or _has_ended(state, dependent):
                continue
            because[dependent] = because[blocked]
            queue.append(dependent)
    return [CascadeBlocked(task_id=each, because=root) for each, root in because.items()]


def _has_ended(state: RunState, task_id: TaskId) -> bool:
    task = state.tasks.get(task_id)
    return task is not None and task.status.is_terminal
