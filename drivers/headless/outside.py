"""Everything the run loop needs that is not the journal: its ports, and how it was invoked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from orchestrator.core.errors import ExitStatus
from orchestrator.core.events import Entry
from orchestrator.core.model import RunStatus, SessionId
from orchestrator.core.state import RunState
from orchestrator.ports.account import Account
from orchestrator.ports.execution import Executor
from orchestrator.ports.host import Host
from orchestrator.ports.workspace import Workspace


class Audience(Protocol):
    """Who is told: heartbeat, projections, narration.  None of them may fail the run."""

    def changed(self) -> None:
        """What the loop does or waits for may have changed."""
        ...

    def committed(self, state: RunState, entry: Entry) -> None:
        """An event of ours is durable, and folded."""
        ...

    def say(self, event: str, **values: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    executor: Executor
    workspace: Workspace
    host: Host
    account: Account
    run_dir: str
    new_session: Callable[[], SessionId]
    redact: Callable[[str], str] = str
    """Takes secrets out of a prompt: an agent may have written one into the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What the command line said, over the run's settings."""

    wait: bool = False
    max_concurrent: int | None = None
    utilization: float | None = None
    """0 to 1; None: what the usage windows say."""
    take_over: bool = False
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """Why the driver returned, and with which exit status."""

    reason: str
    exit_status: int
    signal: int | None = None
    """Raised again after everything is written, so that the caller sees it."""


def finished(status: RunStatus) -> RunEnd:
    """The end of a driver whose run has ended."""
    has_failed = status is RunStatus.FAILED
    exit_status = ExitStatus.TASKS_FAILED if has_failed else ExitStatus.DONE
    return RunEnd(reason=status.value, exit_status=exit_status)
