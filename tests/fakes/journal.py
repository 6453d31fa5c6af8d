"""A journal in memory.  tests/contract/test_journal_contract.py holds it to the real one's conduct.

Handles on one MemoryLog are what processes with one file open are.
"""

from collections.abc import Sequence

import trio

from orchestrator.core.errors import InvariantBroken
from orchestrator.core.events import Entry, KnownEvent
from orchestrator.journal.codec import encode_commit
from orchestrator.ports.journal import Committed, Conflict


class MemoryLog:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.grown = trio.Event()
        self.commits = 0

    def extend(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        self.commits += 1
        self.grown.set()
        self.grown = trio.Event()


class MemoryJournal:
    """orchestrator.ports.journal.Journal over a MemoryLog."""

    def __init__(self, log: MemoryLog | None = None, run_id: str = "r1") -> None:
        self.log = log or MemoryLog()
        self._run_id = run_id
        self._read = 0
        self._told = -1

    async def read_new(self) -> Sequence[Entry]:
        await trio.lowlevel.checkpoint()
        return self._take()

    async def commit(
        self, expected_seq: int, events: Sequence[KnownEvent], *, now: float
    ) -> Committed | Conflict:
        if not events:
            raise InvariantBroken("an empty commit")
        _, entries = encode_commit(events, after_seq=expected_seq, run_id=self._run_id, now=now)
        await trio.lowlevel.checkpoint()
        seen = self._take()
        if seen or len(self.log.entries) != expected_seq:
            return Conflict(seen)
        self.log.extend(entries)
        self._read += len(entries)
        return Committed(entries)

    async def wait_for_others(self) -> None:
        await trio.lowlevel.checkpoint()
        while len(self.log.entries) in {self._read, self._told}:
            await self.log.grown.wait()
        self._told = len(self.log.entries)

    def _take(self) -> tuple[Entry, ...]:
        seen = tuple(self.log.entries[self._read :])
        self._read += len(seen)
        return seen
