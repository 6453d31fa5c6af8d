"""Fold the events that add a task, end it, or open it again."""

from collections import deque

from orchestrator.core.events import (
    CascadeBlocked,
    Entry,
    TaskAbandoned,
    TaskAdded,
    TaskFailed,
    TaskHeld,
    TaskRequeued,
    TaskRevived,
)
from orchestrator.core.fold_breakers import note_task_failed
from orchestrator.core.fold_storm import forget
from orchestrator.core.graph import DOOMED, raise_heights
from orchestrator.core.model import TaskId, TaskStatus
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.transitions import end_lease, make_ready_if_met, require, set_status, task_of


def task_added(state: RunState, event: TaskAdded, entry: Entry) -> None:
    require(event.task_id not in state.tasks, "a task is added twice")
    require(event.slug not in state.slugs, "a slug is given twice")
    pipeline = event.pipeline or state.settings.pipeline
    task = TaskState(
        id=event.task_id,
        slug=event.slug,
        title=event.title,
        body=event.body,
        pipeline=pipeline,
        depends_on=event.depends_on,
        added_seq=entry.seq,
        model=event.model,
        effort=event.effort,
        labels=event.labels,
        priority=event.priority,
        budget_usd=event.budget_usd,
        stage=pipeline.stages[0],
    )
    state.tasks[task.id] = task
    state.slugs[event.slug] = task.id
    state.counts[TaskStatus.WAITING] = state.counts.get(TaskStatus.WAITING, 0) + 1
    state.missing.pop(task.id, None)
    _open_again(state)
    for need in event.depends_on:
        if need in event.satisfied:
            continue
        state.dependents.setdefault(need, []).append(task.id)
        if need not in state.tasks:
            state.missing[need] = state.missing.get(need, 0) + 1
        if need not in state.tasks or state.tasks[need].status is not TaskStatus.COMPLETED:
            task.unmet.add(need)
    raise_heights(state, task)
    make_ready_if_met(state, task)


def _open_again(state: RunState) -> None:
    if state.finalized is not None:
        state.finalized = state.forecast = state.outlook = None


def task_failed(state: RunState, event: TaskFailed, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    set_status(state, task, TaskStatus.FAILED)
    task.reason = event.reason
    note_task_failed(state, event)


def cascade_blocked(state: RunState, event: CascadeBlocked, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    set_status(state, task, TaskStatus.CASCADE_BLOCKED)
    task.reason = f"{event.because} did not complete"


def task_held(state: RunState, event: TaskHeld, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    set_status(state, task, TaskStatus.HELD)
    task.reason = event.reason


def task_abandoned(state: RunState, event: TaskAbandoned, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    if task.lease is not None:
        require(event.work_item_id == task.lease.work_item_id, "abandons another dispatch")
        end_lease(state, task)
        state.audit.abandoned += 1
    set_status(state, task, TaskStatus.REJECTED)
    task.reason = event.reason or "abandoned"
    forget(state, task.id)


def task_requeued(state: RunState, event: TaskRequeued, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    require(task.lease is None, "a task is requeued while it runs")
    require(event.round == task.round + 1, "a round is left out")
    fresh = TaskState(
        id=task.id,
        slug=task.slug,
        title=task.title,
        body=task.body,
        pipeline=task.pipeline,
        depends_on=task.depends_on,
        added_seq=task.added_seq,
        model=task.model,
        effort=task.effort,
        labels=task.labels,
        priority=task.priority,
        budget_usd=task.budget_usd,
        paused=task.paused,
        status=task.status,
        stage=task.pipeline.stages[0],
        dispatches=task.dispatches,
        records=task.records,
        round=event.round,
        unmet=_unmet(state, task),
        height=task.height,
        cost_usd=task.cost_usd,
    )
    state.tasks[task.id] = fresh
    forget(state, task.id)
    _open_again(state)
    set_status(state, fresh, TaskStatus.WAITING)
    make_ready_if_met(state, fresh)
    _reopen_dependents(state, fresh)


def task_revived(state: RunState, event: TaskRevived, entry: Entry) -> None:
    """As if it had not failed: its dependents wait for it again."""
    task = task_of(state, event.task_id)
    require(task.status is TaskStatus.FAILED, "a task is revived that has not failed")
    task.reason = ""
    set_status(state, task, TaskStatus.READY)
    queue = deque([task.id])
    while queue:
        for dependent_id in state.dependents.get(queue.popleft(), ()):
            dependent = state.tasks.get(dependent_id)
            if dependent is not None and _wait_again(state, dependent):
                queue.append(dependent_id)


def _unmet(state: RunState, task: TaskState) -> set[TaskId]:
    """Anew: a task that built on something keeps nothing of what has been requeued since."""
    return {
        need
        for need in task.depends_on
        # A dependency that the source reported done has no dependents here.
        if task.id in state.dependents.get(need, ())
        and (need not in state.tasks or state.tasks[need].status is not TaskStatus.COMPLETED)
    }


def _reopen_dependents(state: RunState, requeued: TaskState) -> None:
    """Work built on the old branch is stale; what was blocked by it waits again."""
    queue = deque([requeued.id])
    seen = {requeued.id}
    while queue:
        current = queue.popleft()
        for dependent_id in state.dependents.get(current, ()):
            dependent = state.tasks.get(dependent_id)
            if dependent is None or dependent_id in seen:
                continue
            seen.add(dependent_id)
            queue.append(dependent_id)
            if dependent.branch:
                dependent.stale = True
            if current == requeued.id and not dependent.branch:
                dependent.unmet.add(current)
                if dependent.status is TaskStatus.READY:
                    set_status(state, dependent, TaskStatus.WAITING)
            _wait_again(state, dependent)


def _wait_again(state: RunState, dependent: TaskState) -> bool:
    """Where it was blocked, and nothing blocks it any more."""
    needs = (state.tasks[need] for need in dependent.unmet if need in state.tasks)
    if dependent.status is not TaskStatus.CASCADE_BLOCKED or any(n.status in DOOMED for n in needs):
        return False
    dependent.reason = ""
    set_status(state, dependent, TaskStatus.WAITING)
    make_ready_if_met(state, dependent)
    return True
