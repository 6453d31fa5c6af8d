"""What has happened.  The journal is a sequence of these, and nothing else is true.

Each class is one line type; its tag is the line's ``type``.  The envelope (``v``,
``seq``, ``ts``, ``run_id``) is added by the journal's codec and travels in Entry.
Fields may be added with a default; a field's meaning never changes.
"""

from typing import Any

import msgspec

from orchestrator.core.history import Sample
from orchestrator.core.journaled import Journaled
from orchestrator.core.model import (
    CallCost,
    Cause,
    Checkpoint,
    ChildExit,
    HostIdentity,
    Mode,
    Outcome,
    Pipeline,
    ProcessIdentity,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItemId,
)
from orchestrator.core.run_events import (
    BudgetReserved as BudgetReserved,
    CooldownEnded as CooldownEnded,
    CooldownStarted as CooldownStarted,
    DriverClaimed as DriverClaimed,
    MemoryRanOut as MemoryRanOut,
    RunFinalized as RunFinalized,
    RunPaused as RunPaused,
    RunUnpaused as RunUnpaused,
    StopRequested as StopRequested,
    SupervisorParked as SupervisorParked,
    WindowObserved as WindowObserved,
)
from orchestrator.core.settings import Project, Settings


class RunCreated(Journaled, frozen=True, kw_only=True):
    settings: Settings
    project: Project
    mode: Mode = Mode.HEADLESS


class SettingsChanged(Journaled, frozen=True, kw_only=True):
    """A person steers the run; it holds from the next plan."""

    changes: dict[str, Any]
    """Of settings by stage only the stages that change; null: no longer set."""
    by: str = ""
    reason: str = ""
    command: int = 0
    """The first event of the command that this is a part of, by its seq; 0: this one."""
    undoes: tuple[int, ...] = ()
    """The changes that it takes back, by their seq."""


class TaskChanged(Journaled, frozen=True, kw_only=True):
    """A person steers one task; it holds from its next dispatch."""

    task_id: TaskId
    changes: dict[str, Any]
    """Of ``priority``, ``model``, ``effort``, ``budget_usd``, ``paused``; null: as for all."""
    by: str = ""
    reason: str = ""
    command: int = 0
    """As of settings_changed."""
    undoes: tuple[int, ...] = ()


class HistoryLoaded(Journaled, frozen=True, kw_only=True):
    """What past runs of the project took and cost: decisions rest on it, so it is kept."""

    samples: tuple[Sample, ...]
    runs: int = 0


class ForecastMade(Journaled, frozen=True, kw_only=True):
    """What the driver expected when it began: scored when the run has ended."""

    at: float
    finish_at: tuple[float, float, float]
    """Epoch seconds: p10, p50, p90."""
    cost_usd: tuple[float, float, float]
    """Of the whole run, what was spent before included."""
    samples: int = 0
    """How many futures it was read from."""


class TaskAdded(Journaled, frozen=True, kw_only=True):
    """A task as its source gave it: nothing is fetched again."""

    task_id: TaskId
    slug: str
    """The id made safe for file and branch names, unique in the run."""
    title: str
    body: str = ""
    depends_on: tuple[TaskId, ...] = ()
    satisfied: tuple[TaskId, ...] = ()
    """Dependencies that the source reported done: they count as completed."""
    pipeline: Pipeline | None = None
    model: str | None = None
    effort: str | None = None
    labels: tuple[str, ...] = ()
    priority: int = 0
    budget_usd: float | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the source that mean nothing to us, kept."""


class StageDispatched(Journaled, frozen=True, kw_only=True):
    """A dispatch is about to start: the lease.  Durable before anything is spawned."""

    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    work_item_id: WorkItemId
    content_hash: str
    lane: str
    host: HostIdentity
    timeout_s: float
    branch: str
    worktree: str
    session_id: SessionId | None = None
    resume: bool = False
    supersedes: WorkItemId | None = None
    model: str = ""
    effort: str = ""
    prompt_sha256: str = ""
    tree_before: str = ""
    """The worktree's tree when this attempt first began, of implement the first attempt in a
    row; empty where it does not matter."""
    max_budget_usd: float | None = None


class ChildStarted(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    work_item_id: WorkItemId
    shim: ProcessIdentity
    child: ProcessIdentity | None = None
    host: HostIdentity | None = None
    started_at: float = 0.0
    """Epoch seconds; 0: not known.  The event goes out with a later commit, and has its time."""


class ChildAdopted(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    work_item_id: WorkItemId


class StageRecorded(Journaled, frozen=True, kw_only=True):
    """A dispatch's result: ends the lease."""

    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    work_item_id: WorkItemId
    status: ResultStatus
    outcome: Outcome
    lane_used: str
    cause: Cause | None = None
    error: str = ""
    signature: str = ""
    """What identical failures share; empty where there is nothing to compare."""
    session_id: SessionId | None = None
    session_lost: bool = False
    last_words: str = ""
    """Of the model, where the attempt goes on: for a session that may have to take over."""
    model: str = ""
    cost: CallCost | None = None
    checkpoint: Checkpoint | None = None
    output: Any | None = None
    """The stage's structured output."""
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    exit: ChildExit = ChildExit()
    started_at: float = 0.0
    ended_at: float = 0.0


class DispatchReclaimed(Journaled, frozen=True, kw_only=True):
    """Recovery took up a dispatch that an earlier driver had left open.

    ``how``: ``adopted`` and ``harvested`` keep the lease; ``resumed`` and
    ``redispatched`` end it, and the same attempt is dispatched again.
    """

    task_id: TaskId
    work_item_id: WorkItemId
    how: str
    reason: str = ""


class LeaseSuperseded(Journaled, frozen=True, kw_only=True):
    """``next --resume`` took over an interactive lease whose holder is gone."""

    task_id: TaskId
    work_item_id: WorkItemId
    reason: str = ""


class ResultRejected(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    work_item_id: WorkItemId
    reason: str


class RetryScheduled(Journaled, frozen=True, kw_only=True):
    """What a failed result leads to: the stage to run next, and what it is told."""

    task_id: TaskId
    stage: Stage
    attempt: int
    spends_attempt: bool
    reason: str
    learnings: str = ""
    not_before: float | None = None
    """Epoch seconds."""
    fresh_session: bool = False
    infrastructure: bool = False
    send_back: bool = False
    run_reset: bool = False
    """The project's reset command runs first."""


class AttemptRefunded(Journaled, frozen=True, kw_only=True):
    """What a storm took is given back: ``attempt`` is the stage's present one again."""

    task_id: TaskId
    stage: Stage
    attempt: int


class TaskFailed(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    stage: Stage
    reason: str
    signature: str = ""


class TaskRevived(Journaled, frozen=True, kw_only=True):
    """What ended it has turned out to be a storm: it goes on where it was."""

    task_id: TaskId


class CascadeBlocked(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    because: TaskId


class TaskHeld(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    reason: str


class TaskAbandoned(Journaled, frozen=True, kw_only=True):
    """A person gave the task up; a lease it had is ended unrecorded."""

    task_id: TaskId
    reason: str = ""
    work_item_id: WorkItemId | None = None


class TaskRequeued(Journaled, frozen=True, kw_only=True):
    """A person wants the task done again, on a new branch."""

    task_id: TaskId
    round: int
    reason: str = ""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """A line type of a newer version: kept on disk, and without effect here."""

    type: str


KnownEvent = (
    RunCreated
    | SettingsChanged
    | TaskChanged
    | HistoryLoaded
    | ForecastMade
    | TaskAdded
    | StageDispatched
    | ChildStarted
    | ChildAdopted
    | StageRecorded
    | DispatchReclaimed
    | LeaseSuperseded
    | ResultRejected
    | RetryScheduled
    | AttemptRefunded
    | TaskFailed
    | TaskRevived
    | CascadeBlocked
    | TaskHeld
    | TaskAbandoned
    | TaskRequeued
    | CooldownStarted
    | CooldownEnded
    | MemoryRanOut
    | WindowObserved
    | BudgetReserved
    | RunPaused
    | RunUnpaused
    | StopRequested
    | SupervisorParked
    | DriverClaimed
    | RunFinalized
)
Event = KnownEvent | Unknown


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its place: the unit that is folded."""

    seq: int
    """1, 2, 3 … without gaps."""
    ts: float
    """Epoch seconds, when it was committed."""
    run_id: str
    event: Event
