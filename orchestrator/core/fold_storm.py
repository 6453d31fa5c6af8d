"""Fold what may be a storm: who has failed, not for its work, since that stage last succeeded.

Invariant: a task's trouble is forgotten as soon as a task's stage of its kind succeeds, and when
a person begins anew, with the run or with the task.
"""

from orchestrator.core.events import AttemptRefunded, Entry, RetryScheduled, StageRecorded
from orchestrator.core.model import Stage, TaskId
from orchestrator.core.state import RunState, TaskState, Trouble
from orchestrator.core.storm import is_suspect, kind_of
from orchestrator.core.transitions import require, task_of


def note_failure(state: RunState, event: StageRecorded) -> None:
    if not is_suspect(event):
        return
    trouble = state.troubles.get(event.task_id)
    if trouble is None or trouble.stage is not event.stage:
        trouble = Trouble(stage=event.stage, attempts_of=event.stage)
        state.troubles[event.task_id] = trouble
    trouble.kinds.add(kind_of(event))


def note_attempt(state: RunState, task: TaskState, event: RetryScheduled) -> None:
    """Before the task is moved on to it."""
    trouble = state.troubles.get(task.id)
    if event.spends_attempt and trouble is not None and trouble.stage is task.stage:
        trouble.attempts_of = event.stage
        trouble.attempts_lost += 1


def all_clear(state: RunState, stage: Stage) -> None:
    if not stage.is_deterministic:
        state.is_stormy = False
    for task_id in [t for t, trouble in state.troubles.items() if trouble.stage is stage]:
        del state.troubles[task_id]


def forget(state: RunState, task_id: TaskId) -> None:
    state.troubles.pop(task_id, None)


def forgive(state: RunState) -> None:
    """What a storm may have used up of each task's patience, attempts aside."""
    for task_id in state.troubles:
        task = state.tasks[task_id]
        task.crashes = 0
        task.rotations = 0
        task.infrastructure_retries = 0
        task.signature = ""


def attempt_refunded(state: RunState, event: AttemptRefunded, entry: Entry) -> None:
    """Its dispatch may still be out: what comes of that counts for the attempt given back."""
    task = task_of(state, event.task_id)
    present = task.attempts.get(event.stage, 1)
    require(1 <= event.attempt < present, "an attempt is refunded that was not spent")
    task.attempts[event.stage] = event.attempt
    if task.stage is event.stage:
        task.attempt = event.attempt
    task.signature = ""
    state.audit.attempts_spent -= present - event.attempt
    trouble = state.troubles.get(event.task_id)
    if trouble is not None:
        trouble.attempts_lost = 0
