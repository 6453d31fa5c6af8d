"""What reaches the run loop: from its dispatches, from other processes, from signals."""

from dataclasses import dataclass, field

import trio

from drivers.stages import Dispatched, Errand
from orchestrator.core.model import Report
from orchestrator.core.plan import StartStage
from orchestrator.ports.execution import Observation


@dataclass(slots=True)
class Permission:
    """Answers a dispatch that waits for its intent to be durable."""

    granted: bool = False
    given: trio.Event = field(default_factory=trio.Event)

    def give(self, *, granted: bool) -> None:
        self.granted = granted
        self.given.set()


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that the start needs is durable, but for the intent."""

    errand: Errand
    permission: Permission


@dataclass(frozen=True, slots=True)
class Unready:
    """The dispatch cannot even be prepared."""

    start: StartStage
    problem: Exception


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The drivers of this host have as many children out as they may: nothing was prepared."""

    start: StartStage


@dataclass(frozen=True, slots=True)
class Observed:
    out: Dispatched
    observation: Observation


@dataclass(frozen=True, slots=True)
class Ended:
    out: Dispatched
    report: Report


@dataclass(frozen=True, slots=True)
class OthersAppended:
    """A command in another terminal changed the run, or another driver told of the account."""


@dataclass(frozen=True, slots=True)
class Signalled:
    number: int


Message = Ready | Unready | NoRoom | Observed | Ended | OthersAppended | Signalled
