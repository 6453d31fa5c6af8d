"""Events to write down, small and typical, for the tests of this directory and its neighbours."""

from orchestrator.core.events import (
    KnownEvent,
    RunCreated,
    RunPaused,
    StageDispatched,
    StageRecorded,
    TaskAdded,
)
from orchestrator.core.model import (
    CallCost,
    ChildExit,
    HostIdentity,
    ModelUsage,
    Outcome,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItemId,
)
from orchestrator.core.settings import Project, Settings

NOW = 1796061600.123456
HOST = HostIdentity(hostname="h", machine_id="m", boot_id="b", pid_namespace="4026531836")


def created() -> RunCreated:
    return RunCreated(settings=Settings(), project=Project(name="sample", root="/repo"))


def added(task_id: str, *, depends_on: tuple[str, ...] = ()) -> TaskAdded:
    return TaskAdded(
        task_id=TaskId(task_id),
        slug=task_id.strip("#"),
        title=f"Task {task_id}",
        depends_on=tuple(TaskId(need) for need in depends_on),
    )


def paused(reason: str = "a person asked") -> RunPaused:
    return RunPaused(reason=reason)


def dispatched(
    task_id: str, stage: Stage = Stage.IMPLEMENT, attempt: int = 1, dispatch: int = 1
) -> StageDispatched:
    return StageDispatched(
        task_id=TaskId(task_id),
        stage=stage,
        attempt=attempt,
        dispatch=dispatch,
        work_item_id=WorkItemId(f"{task_id}/{stage}/a{attempt}/d{dispatch}"),
        content_hash="0" * 64,
        lane="engine:none" if stage.is_deterministic else "headless:claude",
        host=HOST,
        timeout_s=3600.0,
        branch=f"orchestrator/r1/{task_id}",
        worktree=f"/repo/.worktrees/r1/{task_id}",
        session_id=None
        if stage.is_deterministic
        else SessionId("6f1c1f8e-8b1e-4f1e-9d0a-3f6f3f6f3f6f"),
        model="" if stage.is_deterministic else "sonnet",
        prompt_sha256="1" * 64,
    )


def recorded(
    task_id: str,
    stage: Stage = Stage.IMPLEMENT,
    attempt: int = 1,
    dispatch: int = 1,
    *,
    outcome: Outcome = Outcome.ADVANCED,
    cost_usd: float = 0.25,
) -> StageRecorded:
    cost = CallCost(
        cost_usd=cost_usd,
        session_total_usd=0.5,
        input_tokens=10,
        output_tokens=2000,
        cache_read_tokens=90_000,
        cache_write_tokens=10_000,
        by_model={"sonnet": ModelUsage(input_tokens=10, output_tokens=2000, cost_usd=cost_usd)},
    )
    return StageRecorded(
        task_id=TaskId(task_id),
        stage=stage,
        attempt=attempt,
        dispatch=dispatch,
        work_item_id=WorkItemId(f"{task_id}/{stage}/a{attempt}/d{dispatch}"),
        status=ResultStatus.SUCCESS,
        outcome=outcome,
        lane_used="engine:none" if stage.is_deterministic else "headless:claude",
        session_id=None
        if stage.is_deterministic
        else SessionId("6f1c1f8e-8b1e-4f1e-9d0a-3f6f3f6f3f6f"),
        model="" if stage.is_deterministic else "sonnet",
        cost=None if stage.is_deterministic else cost,
        output={"summary": "did it"},
        evidence={"exit": 0},
        exit=ChildExit(code=0, duration_s=12.0),
        started_at=NOW,
        ended_at=NOW + 12.0,
    )


def begun() -> list[KnownEvent]:
    return [created(), added("T1")]
