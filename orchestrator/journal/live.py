"""A run as one process holds it: its state, and the journal that the state is the fold of.

Invariant: what is committed was decided on the state that the commit follows.
Commands and the driver share this; whoever appends first makes the other decide anew.
"""

from collections.abc import Callable, Sequence

from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.events import Entry, KnownEvent
from orchestrator.core.fold import fold, undisturbed
from orchestrator.core.state import RunState
from orchestrator.journal.scan import no_event
from orchestrator.ports.journal import Committed, Conflict, Journal

Decide = Callable[[RunState], Sequence[KnownEvent]]

CONFLICTS_MAX = 1000
"""Commits of others that one commit gives way to."""


class LiveRun:
    def __init__(self, journal: Journal, state: RunState) -> None:
        self._journal = journal
        self.state = state

    @classmethod
    async def open(cls, journal: Journal, state: RunState | None = None) -> "LiveRun":
        """``state``: of what ``journal`` has passed over."""
        while entries := await journal.read_new():
            with undisturbed():
                for entry in entries:
                    state = fold(state, entry)
        if state is None:
            raise no_event("the run's journal")
        return cls(journal, state)

    async def refresh(self) -> Sequence[Entry]:
        """Fold what others appended; returns it."""
        seen: list[Entry] = []
        while entries := await self._journal.read_new():
            self._fold(entries)
            seen += entries
        return seen

    async def wait_for_others(self) -> None:
        """Return soon after another process appended something: then refresh()."""
        await self._journal.wait_for_others()

    async def commit(self, decide: Decide, *, now: float) -> tuple[Entry, ...]:
        """Commit what ``decide`` makes of the present state, and fold it.

        Where others appended first, their events are folded and ``decide`` is asked again.
        Returns the entries committed: () where it decided on nothing.
        """
        for _ in range(CONFLICTS_MAX):
            events = decide(self.state)
            if not events:
                return ()
            answer = await self._journal.commit(self.state.seq, events, now=now)
            match answer:
                case Committed(entries):
                    self._fold(entries)
                    return entries
                case Conflict(seen):
                    self._fold(seen)
        raise EnvironmentFault(
            f"run {self.state.run_id}: others appended {CONFLICTS_MAX} times before this command"
            " could: see what else works on the run, and run it again"
        )

    def _fold(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            fold(self.state, entry)
