"""Tell a storm from one task's own trouble, and keep it from costing anything.

The same failure on several tasks is not about their work: a model that is gone, a
network that is down, a setting that is wrong. The run pauses with the diagnosis, what
the storm took is given back (attempts, and tasks that it ended before it was known for
one), and after ``unpause`` one canary goes first. What may be a storm is kept in
``RunState.troubles``: see fold_storm.py.
"""

from collections.abc import Collection, Sequence

from orchestrator.core.events import (
    AttemptRefunded,
    KnownEvent,
    RunPaused,
    StageRecorded,
    TaskFailed,
    TaskRevived,
)
from orchestrator.core.model import Cause, TaskId, TaskStatus
from orchestrator.core.remedy import then_unpause
from orchestrator.core.state import RunState

ABOUT_THE_WORK = frozenset(
    {
        Cause.TESTS_FAILED,
        Cause.NO_CHANGE,
        Cause.EMPTY_CHANGE,
        Cause.INNER_REPOSITORY,
        Cause.REJECTED,
        Cause.CONFLICT_MARKERS,
        Cause.NOT_FEASIBLE,
        Cause.MERGE_CONFLICT,
    }
)
"""Many tasks may share one of these, each for its own reasons."""

_CAN_START = (TaskStatus.READY, TaskStatus.COOLING, TaskStatus.RUNNING)


def is_suspect(failure: StageRecorded) -> bool:
    """It costs its task something, and need not be about its work.

    What costs nothing, or is waited for until a given time, has no signature.
    """
    cause = failure.cause
    return failure.signature != "" and cause is not None and cause not in ABOUT_THE_WORK


def kind_of(failure: StageRecorded) -> str:
    """What failures of different stages share.  How a child died tells little of why."""
    if failure.cause is Cause.CRASH:
        return str(failure.cause)
    return failure.signature.partition(":")[2]


def in_place_of(
    state: RunState, events: Sequence[KnownEvent], again: Sequence[KnownEvent], error: str
) -> Sequence[KnownEvent]:
    """``events``: what a failure leads to by itself; ``again``: the same attempt once more."""
    failure = events[0]
    assert isinstance(failure, StageRecorded)
    if not is_suspect(failure):
        return events
    ends = any(isinstance(event, TaskFailed) for event in events)
    alike = _storm_of(state, failure, ends=ends)
    if not alike:
        return events
    return [*again, *given_back(state, alike), *_pause(state, alike, error)]


def _storm_of(state: RunState, failure: StageRecorded, *, ends: bool) -> Collection[TaskId]:
    """The tasks that this failure has struck; empty: it is the task's own, as far as is known."""
    own = failure.task_id
    if state.is_stormy:
        return {own}  # the canary, or one that was still out when the run was paused
    if state.paused is not None:
        return ()
    kind = kind_of(failure)
    alike = {own, *(each for each, trouble in state.troubles.items() if kind in trouble.kinds)}
    if len(alike) >= state.settings.storm_tasks_max:
        return alike
    everyone = {own, *state.troubles}
    if len(everyone) >= 2 * max(state.settings.storm_tasks_max, state.settings.max_concurrent):
        return everyone
    # Too few to be sure, but nothing else is there to show the contrary, and one would end.
    among = sum(state.tasks[each].status in _CAN_START for each in alike)
    return alike if ends and len(alike) > 1 and among == can_start(state) else ()


def can_start(state: RunState) -> int:
    """Tasks that a call may come from, without waiting for another task."""
    return sum(state.counts.get(status, 0) for status in _CAN_START)


def given_back(state: RunState, struck: Collection[TaskId]) -> list[KnownEvent]:
    """The attempts that these tasks have lost, and the tasks that were ended."""
    events: list[KnownEvent] = []
    for task_id in sorted(state.troubles.keys() & struck):
        trouble, task = state.troubles[task_id], state.tasks[task_id]
        if trouble.attempts_lost:
            stage = trouble.attempts_of
            attempt = task.attempts[stage] - trouble.attempts_lost
            events.append(AttemptRefunded(task_id=task_id, stage=stage, attempt=attempt))
        if task.status is TaskStatus.FAILED:
            events.append(TaskRevived(task_id=task_id))
    return events


def _pause(state: RunState, struck: Collection[TaskId], error: str) -> list[KnownEvent]:
    if state.paused is not None:
        return []
    names = ", ".join(sorted(struck))
    what = f"{len(struck)} tasks failed in the same way" if len(struck) > 1 else "the canary failed"
    reason = f"{what} ({names}): {error}; mend what they share{then_unpause(state)}"
    return [RunPaused(reason=reason, by="driver", systemic=True)]
