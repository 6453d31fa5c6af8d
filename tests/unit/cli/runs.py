"""A run's state from the events that a test names: the journal's own way."""

from collections.abc import Iterable

from orchestrator.core.events import (
    Entry,
    KnownEvent,
    RunCreated,
    StageDispatched,
    StageRecorded,
    TaskAdded,
    TaskFailed,
)
from orchestrator.core.fold import fold, replay
from orchestrator.core.model import (
    Cause,
    HostIdentity,
    Outcome,
    ResultStatus,
    Stage,
    TaskId,
    WorkItemId,
)
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import RunState

HOST = HostIdentity(hostname="here", machine_id="m", boot_id="b")
PROJECT = Project(name="sample", root="/repo")


def run_of(*events: KnownEvent, settings: Settings | None = None) -> RunState:
    created = RunCreated(settings=settings or Settings(), project=PROJECT)
    return replay(
        Entry(seq=seq, ts=float(seq), run_id="r1", event=event)
        for seq, event in enumerate([created, *events], start=1)
    )


def then(state: RunState, events: Iterable[KnownEvent]) -> RunState:
    for event in events:
        fold(state, Entry(seq=state.seq + 1, ts=state.last_ts + 1, run_id="r1", event=event))
    return state


def added(task: str, *depends_on: str) -> TaskAdded:
    return TaskAdded(
        task_id=TaskId(task),
        slug=task.lstrip("#"),
        title=task,
        depends_on=tuple(TaskId(need) for need in depends_on),
    )


def dispatched(task: str, lane: str = "engine:none") -> StageDispatched:
    return StageDispatched(
        task_id=TaskId(task),
        stage=Stage.INTAKE,
        attempt=1,
        dispatch=1,
        work_item_id=WorkItemId(f"{task}/intake/a1/d1"),
        content_hash="0" * 64,
        lane=lane,
        host=HOST,
        timeout_s=3600.0,
        branch="b",
        worktree="w",
    )


def failing(task: str) -> list[KnownEvent]:
    """From the dispatch to the task's end."""
    start = dispatched(task)
    recorded = StageRecorded(
        task_id=start.task_id,
        stage=start.stage,
        attempt=1,
        dispatch=1,
        work_item_id=start.work_item_id,
        status=ResultStatus.FAILURE,
        outcome=Outcome.FAILED,
        lane_used=start.lane,
        cause=Cause.WORK_ERROR,
    )
    return [start, recorded, TaskFailed(task_id=start.task_id, stage=start.stage, reason="no")]
