"""Tell a storm from one task's own trouble, and keep it from costing anything.

The same failure on several tasks is not about their work: a model that is gone, a
network that is down, a setting that is wrong. The run pauses with the diagnosis,
the attempts that the storm took are given back, and after ``unpause`` one canary
goes first.
"""

from orchestrator.core.events import AttemptRefunded, KnownEvent, RunPaused
from orchestrator.core.model import Cause, TaskId, TaskStatus
from orchestrator.core.state import RunState, TaskState

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


def kind_of(signature: str) -> str:
    """What failures of different stages share."""
    return signature.partition(":")[2]


def storm_of(state: RunState, task: TaskState, cause: Cause, signature: str) -> set[TaskId]:
    """The tasks that have failed in this very way since the last success; empty: no storm."""
    if not signature or cause in ABOUT_THE_WORK or state.paused is not None:
        return set()
    alike = {*state.storm.get(kind_of(signature), {}), task.id}
    is_storm = state.canary != "" or len(alike) >= state.settings.storm_tasks_max
    return alike if is_storm else set()


def weather(state: RunState, alike: set[TaskId], signature: str, error: str) -> list[KnownEvent]:
    """Pause with the diagnosis, and give back the attempts that the other tasks lost to it."""
    failed = state.storm.get(kind_of(signature), {})
    refunds: list[KnownEvent] = []
    for task_id in sorted(alike & failed.keys()):
        stage, attempt = failed[task_id]
        task = state.tasks[task_id]
        is_next = (task.stage, task.attempt) == (stage, attempt + 1)
        if is_next and task.status in {TaskStatus.READY, TaskStatus.COOLING}:
            refunds.append(AttemptRefunded(task_id=task_id, stage=stage, attempt=attempt))
    names = ", ".join(sorted(alike))
    what = f"{len(alike)} tasks failed in the same way" if len(alike) > 1 else "the canary failed"
    reason = f"{what} ({names}): {error}; mend what they share, then: orchestrator unpause"
    return [*refunds, RunPaused(reason=reason, by="driver", systemic=True)]
