"""The nouns of a run.

A task walks a pipeline of stages; a stage is tried in attempts; an attempt is
started by dispatches.  Everything here is a value: records are frozen, and what
changes lives in state.py alone.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, NewType

import msgspec

from orchestrator.core.call_cost import (
    USD_MAX as USD_MAX,
    CallCost as CallCost,
    ModelUsage as ModelUsage,
)
from orchestrator.core.record import Record as Record

TaskId = NewType("TaskId", str)
"""A task's name as its source spells it: ``#12``, ``T1``."""

WorkItemId = NewType("WorkItemId", str)
"""One dispatch's name, unique in the run: ``T1/implement/a1/d1``."""

SessionId = NewType("SessionId", str)
"""A Claude session: a UUID chosen before the child is started."""


class Stage(StrEnum):
    INTAKE = "intake"
    SCOPE = "scope"
    IMPLEMENT = "implement"
    TEST = "test"
    DELIVER = "deliver"
    REVIEW = "review"

    @property
    def is_deterministic(self) -> bool:
        """Run by our own code (lane ``engine:none``), without a model."""
        return self in _DETERMINISTIC


_DETERMINISTIC = frozenset({Stage.INTAKE, Stage.TEST, Stage.DELIVER})


class Pipeline(StrEnum):
    """What ``--lane`` picks."""

    FULL = "full"
    LITE = "lite"
    MICRO = "micro"

    @property
    def stages(self) -> tuple[Stage, ...]:
        return PIPELINES[self]


PIPELINES: Mapping[Pipeline, tuple[Stage, ...]] = {
    Pipeline.FULL: tuple(Stage),
    Pipeline.LITE: tuple(s for s in Stage if s is not Stage.SCOPE),
    Pipeline.MICRO: tuple(s for s in Stage if s not in {Stage.SCOPE, Stage.TEST}),
}


class Mode(StrEnum):
    """Who executes a model stage: this driver's children, or a session of the user's."""

    HEADLESS = "headless"
    INTERACTIVE = "interactive"


ENGINE_LANE = "engine:none"


def lane_of(stage: Stage, mode: Mode, provider: str = "claude") -> str:
    return ENGINE_LANE if stage.is_deterministic else f"{mode}:{provider}"


class ResultStatus(StrEnum):
    """How a dispatch ended, as a stage result says it."""

    SUCCESS = "success"
    FAILURE = "failure"
    SCHEMA_VIOLATION = "schema_violation"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    INTERRUPTED = "interrupted"


class Cause(StrEnum):
    """Why a dispatch did not succeed.  follows.FOLLOWS says what each one leads to."""

    # A verdict about the work: spends an attempt.
    INVALID_OUTPUT = "invalid_output"
    TIMEOUT = "timeout"
    WORK_ERROR = "work_error"
    NO_CHANGE = "no_change"
    CONFLICT_MARKERS = "conflict_markers"
    WROTE_FILES = "wrote_files"
    TESTS_FAILED = "tests_failed"
    EMPTY_CHANGE = "empty_change"
    INNER_REPOSITORY = "inner_repository"
    REJECTED = "rejected"
    # A person has to look.
    NOT_FEASIBLE = "not_feasible"
    MERGE_CONFLICT = "merge_conflict"
    WORKTREE_GONE = "worktree_gone"
    # The machine around the work: the same stage again, at most a few times.
    INFRASTRUCTURE = "infrastructure"
    # Not the work's fault: the same attempt again, nothing spent.
    CRASH = "crash"
    OUT_OF_MEMORY = "out_of_memory"
    SESSION_LOST = "session_lost"
    """Its context is used up, or it cannot be resumed: another session goes on with the work."""
    INTERRUPTED = "interrupted"
    LIMIT = "limit"
    OUTAGE = "outage"
    BUDGET = "budget"
    # Nothing will work until a person mends it: the run pauses.
    AUTH = "auth"
    BILLING = "billing"
    MISCONFIGURED = "misconfigured"


class Outcome(StrEnum):
    """What a recorded result led to."""

    ADVANCED = "advanced"
    COMPLETED = "completed"
    RETRY = "retry"
    SENT_BACK = "sent_back"
    AGAIN = "again"
    HELD = "held"
    FAILED = "failed"


class TaskStatus(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    COOLING = "cooling"
    HELD = "held"
    COMPLETED = "completed"
    FAILED = "failed"
    CASCADE_BLOCKED = "cascade_blocked"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.CASCADE_BLOCKED,
        TaskStatus.REJECTED,
        TaskStatus.SUPERSEDED,
    }
)


class RunStatus(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    PARKED = "parked"
    COMPLETED = "completed"
    FAILED = "failed"
    COMPLETED_WITH_REJECTIONS = "completed_with_rejections"
    SUPERSEDED = "superseded"

    @property
    def is_terminal(self) -> bool:
        return self not in _RUN_OPEN


_RUN_OPEN = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.PARKED})


class ProcessIdentity(Record, frozen=True, kw_only=True):
    """A process that cannot be mistaken for a later one with its pid.

    ``start_time`` is the kernel's own figure (clock ticks since boot on Linux,
    epoch microseconds elsewhere): compared for equality, never read as a time.
    """

    pid: int
    start_time: int


class HostIdentity(Record, frozen=True, kw_only=True):
    """Where pids mean something: machine, boot and pid namespace."""

    hostname: str
    machine_id: str
    boot_id: str
    pid_namespace: str = ""


class Window(Record, frozen=True, kw_only=True):
    """An account's usage window, as the client's stream reports it."""

    name: str
    """``five_hour``, ``seven_day``, ``seven_day_opus`` …"""
    utilization: float | None = None
    """Share used, 0 to 1."""
    resets_at: float | None = None
    """Epoch seconds."""
    status: str = "allowed"
    overage: bool = False
    """It is used up, and the account pays for what goes beyond it."""
    observed_at: float = 0.0
    """Epoch seconds; 0: when it was committed."""


class Checkpoint(Record, frozen=True, kw_only=True):
    """The worktree's tree after a successful stage, kept under refs/orchestrator/."""

    commit: str
    tree: str
    ref: str


class ChildExit(Record, frozen=True, kw_only=True):
    """How a child ended, from the shim's exit record."""

    code: int | None = None
    signal: int | None = None
    reason: str = "exited"
    """``exited``, ``deadline``, ``stopped``, ``hung`` (and stopped for it), ``spawn_failed``, or
    ``shim_lost`` (no record)."""
    error: str = ""
    duration_s: float = 0.0
    descendants_ended: int = 0
    survivors: int = 0
    peak_memory_bytes: int = 0
    """Resident, of the child and its descendants together, as far as it was seen; 0: not."""


class WorkItem(Record, frozen=True, kw_only=True):
    """The contract of a dispatch: what to do.  ``content_hash`` ties a result to it."""

    id: WorkItemId
    content_hash: str
    run_id: str
    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    lane: str
    model: str
    effort: str
    prompt: str
    output_schema: dict[str, Any] | None
    session_id: SessionId | None
    resume: bool
    cwd: str
    timeout_s: float
    max_budget_usd: float | None
    env: dict[str, str]
    """Values the project file sets.  Names taken from the environment are added at the spawn."""
    created_at: float
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    """What a deterministic stage works on; empty for a model stage."""


class StageResult(Record, frozen=True, kw_only=True):
    """The contract of a dispatch: what came back."""

    work_item_id: WorkItemId
    content_hash: str
    run_id: str
    task_id: TaskId
    stage: Stage
    attempt: int
    status: ResultStatus
    error: str | None = None
    """Required unless the status is success."""
    structured_output: Any | None = None
    raw_output: str | None = None
    session_id: SessionId | None = None
    usage: dict[str, Any] | None = None
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=USD_MAX)] | None = None
    """Bounded, because it goes into a bill that a budget is held by."""
    lane_used: str | None = None
    completed_at: str | float | None = None


class Ending(Record, frozen=True, kw_only=True):
    """How an executor saw a dispatch end, before its evidence is looked at."""

    status: ResultStatus
    cause: Cause | None = None
    """None exactly where ``status`` is success."""
    error: str = ""
    structured_output: Any | None = None
    raw_output: str = ""
    """The model's last words or the end of a command's output, bounded."""
    session_id: SessionId | None = None
    cost: CallCost | None = None
    windows: tuple[Window, ...] = ()
    resets_at: float | None = None
    """When a limit ends, epoch seconds, where it was said."""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    exit: ChildExit = ChildExit()
    started_at: float = 0.0
    ended_at: float = 0.0
    session_lost: bool = False
    """The session cannot be resumed: the next dispatch starts another."""


class Report(Record, frozen=True, kw_only=True):
    """An ending whose evidence has been looked at: what decide() judges."""

    work_item_id: WorkItemId
    content_hash: str
    ending: Ending
    checkpoint: Checkpoint | None = None
    lane_used: str = ""
    how: str = ""
    """How recovery came by it: ``adopted``, ``harvested``, or empty."""
