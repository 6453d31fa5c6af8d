"""Which status a task can go to from which, and the few steps that every fold is made of.

Every status a task can be given is a row of TRANSITIONS; the exhaustive test and the
diagram in docs/ read the same table.  What is not in it is an InvariantBroken.
"""

import math
from collections.abc import Callable, Mapping

from orchestrator.core.errors import InvariantBroken
from orchestrator.core.graph import push_cooling, push_ready
from orchestrator.core.model import TaskId, TaskStatus, WorkItemId
from orchestrator.core.state import Lease, RunState, TaskState

_S = TaskStatus

TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.WAITING: frozenset({_S.READY, _S.CASCADE_BLOCKED, _S.HELD, _S.REJECTED, _S.WAITING}),
    _S.READY: frozenset(
        {
            _S.RUNNING,
            _S.WAITING,
            _S.HELD,
            _S.FAILED,
            _S.CASCADE_BLOCKED,
            _S.REJECTED,
            _S.READY,
        }
    ),
    _S.RUNNING: frozenset(
        {_S.READY, _S.COOLING, _S.HELD, _S.COMPLETED, _S.FAILED, _S.REJECTED, _S.CASCADE_BLOCKED}
    ),
    _S.COOLING: frozenset(
        {
            _S.RUNNING,
            _S.READY,
            _S.WAITING,
            _S.HELD,
            _S.FAILED,
            _S.REJECTED,
            _S.CASCADE_BLOCKED,
        }
    ),
    _S.HELD: frozenset({_S.READY, _S.WAITING, _S.REJECTED, _S.CASCADE_BLOCKED}),
    _S.COMPLETED: frozenset({_S.READY, _S.WAITING}),
    _S.FAILED: frozenset({_S.READY, _S.WAITING, _S.REJECTED}),
    _S.CASCADE_BLOCKED: frozenset({_S.READY, _S.WAITING, _S.REJECTED}),
    _S.REJECTED: frozenset({_S.READY, _S.WAITING}),
    _S.SUPERSEDED: frozenset(),
}

_INDEXES: Mapping[TaskStatus, Callable[[RunState, TaskState], None]] = {
    _S.READY: push_ready,
    _S.COOLING: push_cooling,
}


def require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantBroken(message)


def task_of(state: RunState, task_id: TaskId) -> TaskState:
    task = state.tasks.get(task_id)
    if task is None:
        raise InvariantBroken(f"there is no task {task_id}")
    return task


def leased(state: RunState, task_id: TaskId, work_item_id: WorkItemId) -> tuple[TaskState, Lease]:
    task = task_of(state, task_id)
    lease = task.lease
    if lease is None or lease.work_item_id != work_item_id:
        raise InvariantBroken(f"{work_item_id} is not the dispatch that task {task_id} is out for")
    return task, lease


def end_lease(state: RunState, task: TaskState) -> None:
    lease = state.in_flight.pop(task.id)
    task.lease = None
    if lease.max_budget_usd:
        sum_reserved(state)


def sum_reserved(state: RunState) -> None:
    """Anew, because taking away what was added leaves crumbs."""
    out = state.in_flight.values()
    state.totals.reserved_usd = math.fsum(lease.max_budget_usd or 0.0 for lease in out)


def set_status(state: RunState, task: TaskState, status: TaskStatus) -> None:
    if status not in TRANSITIONS[task.status]:
        raise InvariantBroken(f"task {task.id} goes from {task.status} to {status}")
    state.counts[task.status] -= 1
    state.counts[status] = state.counts.get(status, 0) + 1
    task.status = status
    state.set_aside.discard(task.id)
    index = _INDEXES.get(status)
    if index is not None:
        index(state, task)


def make_ready_if_met(state: RunState, task: TaskState) -> None:
    if task.status is TaskStatus.WAITING and not task.unmet:
        set_status(state, task, TaskStatus.READY)
