"""How a dispatch is executed: prepared, run, attached to after a restart, stopped."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from orchestrator.core.model import Ending, ProcessIdentity, Window, WorkItem
from orchestrator.core.recover import (
    Seen as Seen,
    SeenAlive as SeenAlive,
    SeenDead as SeenDead,
    SeenEnded as SeenEnded,
    SeenNothing as SeenNothing,
)
from orchestrator.core.state import Lease


class Started(msgspec.Struct, frozen=True):
    """The shim runs, and has written who it and its child are."""

    shim: ProcessIdentity
    child: ProcessIdentity | None
    started_at: float = 0.0
    """Epoch seconds, as the shim has written it; 0: not known."""


class WindowsSeen(msgspec.Struct, frozen=True):
    windows: tuple[Window, ...]
    at: float | None = None
    """Epoch seconds: a moment before which it was not said; None: just now."""


class Answered(msgspec.Struct, frozen=True):
    """A model has answered for the first time in this process: the account is open."""


class ResultSeen(msgspec.Struct, frozen=True):
    """The child said its result; it may live on for a while."""


class Unwanted(msgspec.Struct, frozen=True):
    """The child does what it must not, and costs money: the executor stops it at once."""

    why: str


Observation = Started | WindowsSeen | Answered | ResultSeen | Unwanted
Observe = Callable[[Observation], None]
"""Called from the dispatch's own trio task; must not block."""


class Executor(Protocol):
    async def prepare(self, work: WorkItem) -> bool:
        """Make everything durable that a start needs, and lock the dispatch's file.

        Before its ``stage_dispatched`` is committed.  Starts nothing.  False: the drivers of this
        host have as many children out as they may; then nothing was made or locked.
        """
        ...

    async def discard(self, work: WorkItem) -> None:
        """Undo prepare(): the dispatch was not committed after all."""
        ...

    async def run(self, work: WorkItem, observe: Observe) -> Ending:
        """Start a prepared dispatch and follow it to its end.

        A failure of any kind is an Ending, not an exception.  When cancelled: detach.  The
        child goes on under its shim, and attach() takes it up.
        """
        ...

    async def find(self, lease: Lease) -> Seen:
        """Look, after a restart, for what became of a dispatch.  Changes nothing."""
        ...

    async def attach(self, lease: Lease, observe: Observe) -> Ending:
        """Follow a dispatch that an earlier driver started to its end.  Cancelled: detach."""
        ...

    async def stop(self, lease: Lease) -> int:
        """End the dispatch's processes, all of them; resumable.  Returns the survivors: 0.

        run() or attach(), where one is under way, returns the ending.
        """
        ...
