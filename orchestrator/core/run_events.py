"""What has happened to the run as a whole: limits, money, people, drivers.

A part of events.py, which says what an event is.
"""

from orchestrator.core.journaled import Journaled
from orchestrator.core.model import (
    HostIdentity,
    ProcessIdentity,
    RunStatus,
    TaskId,
    Window,
    WorkItemId,
)


class CooldownStarted(Journaled, frozen=True, kw_only=True):
    """Nothing with a model is dispatched until ``until`` (epoch seconds), then one canary."""

    until: float
    reason: str
    task_id: TaskId | None = None
    at: float | None = None
    """Epoch seconds: when the account said so; null: when this was committed."""
    probes: int | None = None
    """Rejections in a row that named no moment to come, this one included; null: one more."""
    by: str = ""
    """The account's name, where another driver of it has met the limit."""


class MemoryRanOut(Journaled, frozen=True, kw_only=True):
    """A child was killed for want of memory: until ``until`` no more than ``limit`` are out."""

    task_id: TaskId
    limit: int
    until: float
    reason: str = ""


class CooldownEnded(Journaled, frozen=True, kw_only=True):
    """The account is open again: a canary was answered."""

    reason: str = ""
    at: float | None = None
    by: str = ""
    """The account's name, where it was another driver's canary."""


class WindowObserved(Journaled, frozen=True, kw_only=True):
    windows: tuple[Window, ...]
    account: str = ""
    """The one that pays.  Another one than before: what was known of that is void."""


class BudgetReserved(Journaled, frozen=True, kw_only=True):
    task_id: TaskId
    work_item_id: WorkItemId
    usd: float


class RunPaused(Journaled, frozen=True, kw_only=True):
    reason: str
    by: str = ""
    systemic: bool = False
    """What failed is not about any task's work: one canary goes first when it is unpaused."""
    breaker: str = ""
    """``tasks``, ``spend`` or ``zero_work``: which one tripped; one canary goes first, too."""


class RunUnpaused(Journaled, frozen=True, kw_only=True):
    by: str = ""


class StopRequested(Journaled, frozen=True, kw_only=True):
    """A command in another terminal asks the driver to stop: ``drain`` or ``now``."""

    how: str
    by: str = ""


class SupervisorParked(Journaled, frozen=True, kw_only=True):
    reason: str
    resume_command: str = ""


class DriverClaimed(Journaled, frozen=True, kw_only=True):
    driver: str
    process: ProcessIdentity
    host: HostIdentity
    argv: tuple[str, ...] = ()
    took_over: bool = False


class RunFinalized(Journaled, frozen=True, kw_only=True):
    state: RunStatus
    reason: str = ""
