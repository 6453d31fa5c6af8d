"""The state of a run: what the fold of its journal leaves in memory.

The loop that owns a RunState lets fold() update it in place; nothing else writes
to it.  ``ready``, ``cooling``, ``in_flight`` and ``counts`` are indexes kept by the
fold, so that nothing done per event looks at every task.
"""

from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.counted import Counters, Totals
from orchestrator.core.events import ForecastMade
from orchestrator.core.history import History
from orchestrator.core.model import (
    Cause,
    Checkpoint,
    HostIdentity,
    Mode,
    ModelUsage,
    Pipeline,
    ProcessIdentity,
    Record,
    RunStatus,
    SessionId,
    Stage,
    TaskId,
    TaskStatus,
    Window,
    WorkItemId,
)
from orchestrator.core.settings import Project, Settings

ReadyItem = tuple[int, float, int, TaskId]
"""(-priority, -height, added_seq, id)"""


@dataclass(slots=True, kw_only=True)
class Lease:
    """The claim of a dispatch on its task."""

    task_id: TaskId
    work_item_id: WorkItemId
    content_hash: str
    stage: Stage
    attempt: int
    dispatch: int
    lane: str
    host: HostIdentity
    timeout_s: float
    dispatched_at: float
    dispatched_seq: int = 0
    session_id: SessionId | None
    resume: bool
    model: str
    effort: str
    tree_before: str
    worktree: str
    branch: str
    max_budget_usd: float | None
    taken_up: str = ""
    """How, where a driver found it after a restart: as ``dispatch_reclaimed`` says."""
    shim: ProcessIdentity | None = None
    child: ProcessIdentity | None = None

    @property
    def ended_unattended(self) -> bool:
        """While no driver lived: whatever ended the driver may have ended it, too."""
        return self.taken_up in ("harvested", "resumed")

    @property
    def is_interactive(self) -> bool:
        return self.lane.startswith("interactive:")


@dataclass(slots=True, kw_only=True)
class Session:
    """A chain of calls that share a Claude session."""

    id: SessionId
    total_usd: float = 0.0
    """The running total at the last record, to take this call's own cost from."""
    estimated_usd: float = 0.0
    """Booked since then without a total.  The client may have charged it, or forgotten it."""
    usage: dict[str, ModelUsage] = field(default_factory=dict)
    calls: int = 0


_UP_TO_IMPLEMENT = frozenset({Stage.INTAKE, Stage.SCOPE, Stage.IMPLEMENT})


@dataclass(slots=True, kw_only=True)
class TaskState:
    id: TaskId
    slug: str
    title: str
    body: str
    pipeline: Pipeline
    depends_on: tuple[TaskId, ...]
    added_seq: int
    model: str | None = None
    effort: str | None = None
    labels: tuple[str, ...] = ()
    priority: int = 0
    """Higher goes first; a person's word, before the critical path."""
    budget_usd: float | None = None
    """Its own, over ``task_budget_usd``."""
    paused: str | None = None
    """Why, while a person keeps this task alone from starting."""

    status: TaskStatus = TaskStatus.WAITING
    stage: Stage = Stage.INTAKE
    attempt: int = 1
    """Of ``stage``."""
    attempts: dict[Stage, int] = field(default_factory=dict)
    """The current attempt of each stage in this round."""
    dispatches: dict[tuple[Stage, int], int] = field(default_factory=dict)
    """How often each attempt was dispatched, over all rounds."""
    crashes: int = 0
    """Dispatches of the present attempt that died under it: bounded by ``dispatches_max``."""
    records: int = 0
    """Recorded dispatches: numbers the files ``NN-<stage>.json``."""
    rotations: int = 0
    """Sessions of the present attempt that could not go on."""
    outages: int = 0
    """Outages in a row, failed logins among them: the delay grows with them."""
    infrastructure_retries: int = 0
    send_backs: int = 0
    round: int = 1
    """2 after the first requeue: branch ``…-r2``."""
    lease: Lease | None = None
    not_before: float | None = None
    reason: str = ""
    """Why it is held, failed or blocked."""
    cause: Cause | None = None
    """Of the last recorded dispatch; None where that was a success."""
    unmet: set[TaskId] = field(default_factory=set)
    """Dependencies that are not completed."""
    height: float = 0.0
    """Of the longest path through its dependents: in stages, or in seconds where they are known."""
    branch: str = ""
    worktree: str = ""
    work_session: Session | None = None
    """Shared by scope and implement."""
    review_session: Session | None = None
    learnings: str = ""
    """What the next attempt is told."""
    last_words: str = ""
    """What the model said last in an attempt that goes on."""
    interrupted: bool = False
    """The last dispatch of this attempt was cut off: the next one is told."""
    run_reset: bool = False
    signature: str = ""
    """Of the last failure in a row."""
    tree_before: str = ""
    outputs: dict[Stage, Any] = field(default_factory=dict)
    """The last structured output of each stage; dropped when the task is done."""
    checkpoint: Checkpoint | None = None
    """Of the last implement that went well: what is delivered.  Dropped when the task is done."""
    installed: str = ""
    """The commit that holds what intake left: what install did is told from the work by it."""
    cost_usd: float = 0.0
    stage_usd: dict[Stage, float] = field(default_factory=dict)
    """What each stage has cost in this round."""
    unjudged_s: float = 0.0
    """What the present attempt's dispatches have taken that came to no verdict."""
    unjudged_usd: float = 0.0
    extensions: int = 0
    """How often the present attempt has used up what it had reserved."""
    stale: bool = False
    """A dependency was requeued after this task had built on it."""
    unchecked: str = ""
    """Which command of its last test says nothing of its work, and why."""

    def tries(self, stage: Stage, attempt: int) -> int:
        """At the work as it is now: what follows implement is done anew with each of its."""
        before = stage in _UP_TO_IMPLEMENT
        return attempt if before else max(attempt, self.attempts.get(Stage.IMPLEMENT, 1))


class Change(Record, frozen=True, kw_only=True):
    """What a person has changed of the settings, or of one task, by one event."""

    seq: int
    at: float
    """Epoch seconds."""
    by: str = ""
    reason: str = ""
    command: int
    """The seq of the first event of its command."""
    task_id: TaskId | None = None
    """None: the settings."""
    was: dict[str, Any]
    """Flat: a setting by stage is ``models.implement``, and null where it is not set."""
    now: dict[str, Any]
    undoes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Trouble:
    """How a task has failed, and not for its work, since its stage last succeeded for any task."""

    stage: Stage
    kinds: set[str] = field(default_factory=set)
    attempts_of: Stage
    attempts_lost: int = 0
    """Of ``attempts_of``: what is given back if it is a storm."""


@dataclass(slots=True, kw_only=True)
class Work:
    """An attempt at a stage with a model, in all of its calls."""

    task_id: TaskId
    stage: Stage
    model: str
    usd: float
    expected_usd: float
    goes_on: bool
    """There is no verdict yet: what the next call costs is added."""


@dataclass(slots=True, kw_only=True)
class Breakers:
    """What the circuit breakers look at: since a person last let the run go on."""

    failed: list[TaskId] = field(default_factory=list)
    """The last of ``failures_in_row``."""
    failures_in_row: int = 0
    failure_signature: str = ""
    failures_alike: int = 0
    idle: list[TaskId] = field(default_factory=list)
    """Whose calls failed without any work, all in a row; a task may be named twice."""
    dear: list[Work] = field(default_factory=list)
    """The last attempts that cost anything."""
    expected_usd: dict[tuple[Stage, str], float] = field(default_factory=dict)
    """Of stage and model, as it was before this run's first attempt of that kind."""
    tripped: str = ""
    """Which one, until a stage with a model succeeds that was begun after it."""
    tripped_seq: int = 0
    """Of the pause: what was dispatched before it has been answered for by it."""


@dataclass(slots=True, kw_only=True)
class WindowRate:
    """The first and the latest look at one period of a usage window."""

    ends_at: float
    first_share: float
    first_usd: float
    """Recorded in this run by then."""
    share: float
    usd: float


@dataclass(slots=True, kw_only=True)
class RunState:
    run_id: str
    settings: Settings
    project: Project
    mode: Mode
    created_at: float
    seq: int = 0
    """Of the last event folded."""
    last_ts: float = 0.0
    tasks: dict[TaskId, TaskState] = field(default_factory=dict)
    dependents: dict[TaskId, list[TaskId]] = field(default_factory=dict)
    """Also of tasks that are not added yet."""
    slugs: dict[str, TaskId] = field(default_factory=dict)
    in_flight: dict[TaskId, Lease] = field(default_factory=dict)
    ready: list[ReadyItem] = field(default_factory=list)
    """A heap.  An entry that does not fit its task is void."""
    cooling: list[tuple[float, TaskId]] = field(default_factory=list)
    """A heap of (not_before, id); an entry that does not fit its task is void."""
    set_aside: set[TaskId] = field(default_factory=set)
    """Ready or cooling, and in neither heap: a person has paused them."""
    counts: dict[TaskStatus, int] = field(default_factory=dict)
    missing: dict[TaskId, int] = field(default_factory=dict)
    """Dependencies that no added task has, and how many tasks name each."""
    breakers: Breakers = field(default_factory=Breakers)
    troubles: dict[TaskId, Trouble] = field(default_factory=dict)
    """What may turn out to be a storm."""
    is_stormy: bool = False
    """From a systemic pause until a stage with a model succeeds."""
    canary: str = ""
    """One dispatch with a model at a time: ``account``, until one is answered after a limit;
    ``model``, until one succeeds."""
    probes: int = 0
    """Rejections in a row that named no moment to come: the wait grows with them."""
    cooldown_until: float | None = None
    cooldown_reason: str = ""
    limit_said_at: float = 0.0
    """Epoch seconds: the last word on the account's limit, rejected or open again; 0: none."""
    account: str = ""
    """The one that ``windows`` and the limit are of; empty: not said."""
    memory_limit: int = 0
    """Of children, until ``memory_limit_until``: one was killed for want of memory."""
    memory_limit_until: float = 0.0
    windows: dict[str, Window] = field(default_factory=dict)
    window_rates: dict[str, WindowRate] = field(default_factory=dict)
    login_ends_at: str = ""
    """As the client told it last; empty: not said."""
    paused: str | None = None
    """Why, while it is paused."""
    parked: str | None = None
    stop_requested: str | None = None
    """``drain`` or ``now``; cleared by the next driver's claim."""
    finalized: RunStatus | None = None
    driver: str = ""
    history: History = field(default_factory=History)
    pace_s: dict[tuple[Stage, str], float] = field(default_factory=dict)
    """What a stage with a model takes, as it was learned from past runs: heights rest on it."""
    forecast: ForecastMade | None = None
    """The first one since the run was made, or opened again: it is scored at the end."""
    outlook: ForecastMade | None = None
    """The last one."""
    changes: list[Change] = field(default_factory=list)
    """The last that people made, oldest first."""
    audit: Counters = field(default_factory=Counters)
    totals: Totals = field(default_factory=Totals)

    @property
    def status(self) -> RunStatus:
        if self.finalized is not None:
            return self.finalized
        if self.parked is not None:
            return RunStatus.PARKED
        if self.paused is not None:
            return RunStatus.PAUSED
        return RunStatus.RUNNING if self.audit.dispatched else RunStatus.CREATED

    @property
    def is_settled(self) -> bool:
        """Every task has ended."""
        return bool(self.tasks) and all(
            self.counts.get(status, 0) == 0 for status in TaskStatus if not status.is_terminal
        )
