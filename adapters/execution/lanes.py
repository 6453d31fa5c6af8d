"""What a lane is to the executor: it says what to run, reads what comes, and says what it meant."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.core.model import ChildExit, Ending, WorkItem
from orchestrator.ports.execution import Observation


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    env: dict[str, str]
    """The complete environment; the supervisor adds its tags."""
    cwd: str
    stdin: Path


@dataclass(frozen=True)
class StartAgain:
    """The dispatch is to be started once more, the other way."""

    reason: str


class Reader(Protocol):
    """Makes sense of a child's stream; no I/O, and bounded memory whatever comes in."""

    def feed(self, data: bytes) -> tuple[Observation, ...]: ...

    def close(self) -> None:
        """End of the stream: a torn last line is dropped and counted."""
        ...


class Lane(Protocol):
    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        """What to run.  ``again``: the other way than the first time."""
        ...

    def reader(self, work: WorkItem) -> Reader: ...

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending | StartAgain:
        """How it ended.  Never raises for anything that a child can do."""
        ...
