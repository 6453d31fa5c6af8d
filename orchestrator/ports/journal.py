"""Where events are kept: the only durable truth of a run."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from orchestrator.core.events import Entry, KnownEvent


class Committed(msgspec.Struct, frozen=True):
    """The events are durable, all of them."""

    entries: tuple[Entry, ...]


class Conflict(msgspec.Struct, frozen=True):
    """Others appended first; nothing was written.  Fold ``seen``, decide again, commit again."""

    seen: tuple[Entry, ...]


class Journal(Protocol):
    async def read_new(self) -> Sequence[Entry]:
        """What is durable and was not returned before, by any method, oldest first.

        Long journals come in several answers: an empty one says that there is no more.
        Raises JournalDamaged for a line in the middle that cannot be read, naming its number.
        """
        ...

    async def commit(
        self, expected_seq: int, events: Sequence[KnownEvent], *, now: float
    ) -> Committed | Conflict:
        """Append the events in one write and one sync, or nothing.

        The lock is held for this call alone.  ``expected_seq`` is the sequence number that the
        events were decided on.  Raises EnvironmentFault where the disk is full or fails: then
        nothing of the commit will ever be read.
        """
        ...

    async def wait_for_others(self) -> None:
        """Return soon after another process appended something not yet returned.

        Once for each time it grows: who is told reads before waiting again.
        """
        ...
