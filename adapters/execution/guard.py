"""Watch one dispatch's child, and stop it when it hangs, in its work or after its result.

What a hang is says stall.py; here are the clock, the looks and the record.  A look costs about
3 ms, and is only made of a child that has been silent for a while.

Invariant: why a child is stopped is on disk, with what was seen of it, before it is stopped: so
the next driver too knows a hang from a stop that a person asked for.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from adapters.execution.stall import Kind, Signs, Told, Vigil, judge, sentence
from adapters.execution.stems import Stem
from adapters.host.usage import cpu_of_trees
from orchestrator.core.model import ChildExit, ProcessIdentity, Record, WorkItem
from orchestrator.core.settings import Settings

LOG = logging.getLogger("orchestrator.execution")
LOOK_S = 10.0
"""Between two looks, and how soon a change of the settings is taken up."""
QUIET_S = 20.0
"""A child is not looked at before it has been silent for so long."""
LOOKS = 8
"""At least so many in a deadline, where it is short."""


@runtime_checkable
class Legible(Protocol):
    """A lane whose child says enough of what it does to be told from one that hangs."""

    def told(self, reader: object) -> Told:
        """What the child is about."""
        ...

    def transcript_bytes(self, work: WorkItem) -> int:
        """Of what it writes for itself, which grows with its work."""
        ...


class Stall(Record, frozen=True, kw_only=True):
    """``<stem>.stall.json``: why the driver stopped a child that hung."""

    what: str
    signs: Signs


class Linger:
    """How long a child may live on after the last result it said."""

    def __init__(self) -> None:
        self._said = trio.Event()
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return self._said.is_set()

    def renew(self, seconds: float) -> None:
        self._until = trio.current_time() + seconds
        self._said.set()

    async def then(self, stop: Callable[[Stem], Awaitable[object]], stem: Stem) -> None:
        await self._said.wait()
        while trio.current_time() < self._until:  # noqa: ASYNC110 - a later result moves it
            await trio.sleep_until(self._until)
        await stop(stem)


class Guard:
    """``legible`` is None for a child that has only its deadline."""

    def __init__(
        self,
        stem: Stem,
        work: WorkItem,
        legible: Legible | None,
        settings: Callable[[], Settings],
    ) -> None:
        self.stall = stem.read_stall(Stall)
        """Not None at once where an earlier driver has decided so: it may not have come to it."""
        self._stem = stem
        self._work = work
        self._legible = legible
        self._settings = settings
        self._vigil = Vigil(trio.current_time())
        self._trees: tuple[ProcessIdentity, ...] = ()

    def started(self, *trees: ProcessIdentity) -> None:
        self._trees = trees

    def heard(self, reader: object) -> None:
        if self._legible is not None:
            self._vigil.heard(trio.current_time(), self._legible.told(reader))

    def dismiss(self) -> None:
        """The child has said its result: how long it may live on says Linger."""
        self._legible = None

    async def then(self, stop: Callable[[Stem], Awaitable[object]]) -> None:
        """Stop the child once it hangs."""
        if self._legible is None:
            return
        while self.stall is None:
            limit_s = self._limit_s()
            pause_s = min(LOOK_S, limit_s / LOOKS) if limit_s else LOOK_S
            until = trio.current_time() + pause_s
            await trio.sleep_until(until)
            if (missed_s := trio.current_time() - until) > pause_s:
                self._vigil.missed(missed_s)
            if self._legible is None:
                return
            if limit_s:
                self.stall = self._look(self._legible, limit_s)
        await stop(self._stem)

    def corrected(self, exit_: ChildExit) -> ChildExit:
        """To be stopped because it hung is another thing than to be stopped."""
        if self.stall is None or exit_.reason not in ("stopped", "shim_lost"):
            return exit_
        return msgspec.structs.replace(exit_, reason="hung", error=self.stall.what)

    def evidence(self, exit_: ChildExit) -> dict[str, Any]:
        """For the stop, where it was this guard's, whatever the child's words amount to."""
        if self.stall is None or exit_.reason != "hung":
            return {}
        return {"stall": self.stall.signs.shown()}

    def _limit_s(self) -> float:
        settings = self._settings()
        return settings.idle_s if self._vigil.has_spoken else settings.first_event_s

    def _look(self, legible: Legible, limit_s: float) -> Stall | None:
        now = trio.current_time()
        if self._vigil.silence_s(now) < min(QUIET_S, limit_s / LOOKS):
            return None
        self._vigil.looked(
            now,
            cpu_s=cpu_of_trees(self._trees),
            stderr_bytes=self._stem.stderr_bytes(),
            transcript_bytes=legible.transcript_bytes(self._work),
        )
        signs, settings = self._vigil.signs(now), self._settings()
        kind = judge(signs, first_event_s=settings.first_event_s, idle_s=settings.idle_s)
        if kind is not Kind.HUNG:
            return None
        stall = Stall(what=sentence(signs), signs=signs)
        LOG.warning("%s is stopped: %s", self._work.id, stall.what)
        try:
            self._stem.write_stall(stall)
        except OSError as fault:  # a full disk: this driver knows it, and that may be enough
            LOG.warning("%s: cannot write %s: %s", self._work.id, self._stem.stall, fault)
        return stall
