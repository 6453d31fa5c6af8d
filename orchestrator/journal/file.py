"""The journal in a file: commit in one write and one sync, follow, mend a torn tail.

Invariant: a commit is in the file whole and synced, or it is not in it; nobody
appends without having read all that is there, and nothing is cut that is not kept
beside.  The lock is held for a commit alone.
"""

import errno
from collections.abc import Sequence

from orchestrator.core.errors import EnvironmentFault, InvariantBroken
from orchestrator.core.events import Entry, KnownEvent
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.scan import Follower, Position, require_run
from orchestrator.ports.disk import Disk, SyncFailed
from orchestrator.ports.journal import Committed, Conflict

LOCK_WAIT_S = 10.0

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


class FileJournal:
    """orchestrator.ports.journal.Journal over a Disk.  One object serves one trio run."""

    def __init__(self, disk: Disk, run_id: str) -> None:
        self._disk = disk
        self._run_id = run_id
        self._follower = Follower(disk.read, disk.name)
        self._committing = False
        self._broken: str | None = None
        self._told_size = -1
        """That the file had when a waiter was last told: once is enough until it is read."""

    @property
    def position(self) -> Position:
        """Up to where it has been read and written: for a snapshot."""
        return self._follower.position

    def go_on_from(self, position: Position) -> bool:
        """Before anything is read: whether what comes before is, every byte, what it was there."""
        return self._follower.check_to(position)

    async def read_new(self) -> Sequence[Entry]:
        if self._committing:
            return ()  # commit() returns, or passes over, what there is
        batch = self._follower.next_batch()
        if batch.torn and await self._lock(wait_s=0.0):
            # Locked, so nobody is writing it: the writer is dead.
            try:
                return await self._catch_up()
            finally:
                self._unlock()
        if batch.entries:
            self._told_size = -1
            require_run(self._disk.name, batch.entries[0].run_id, self._run_id)
        return batch.entries

    async def commit(
        self, expected_seq: int, events: Sequence[KnownEvent], *, now: float
    ) -> Committed | Conflict:
        if self._broken is not None:
            raise EnvironmentFault(self._broken)
        if not events:
            raise InvariantBroken("an empty commit")
        data, entries = encode_commit(events, after_seq=expected_seq, run_id=self._run_id, now=now)
        if not await self._lock(LOCK_WAIT_S):
            raise EnvironmentFault(
                f"{self._disk.name}: another process has held its lock for {LOCK_WAIT_S:.0f} s, so"
                " nothing was recorded; `lsof` on that file names the process: end it if it hangs,"
                " and run the command again"
            )
        try:
            seen = await self._catch_up()
            if seen or self._follower.seq != expected_seq:
                return Conflict(tuple(seen))
            await self._append(data)
            self._follower.advance(data, len(data), len(entries))
        finally:
            self._unlock()
        return Committed(entries)

    async def wait_for_others(self) -> None:
        while True:
            size = self._disk.size()
            if not self._committing and size not in {self._follower.offset, self._told_size}:
                self._told_size = size
                return
            await self._disk.changed()

    async def _lock(self, wait_s: float) -> bool:
        try:
            locked = await self._disk.lock(wait_s)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise EnvironmentFault(
                    f"{self._disk.name}: cannot be locked ({error.strerror}): a run must be on a"
                    " disk that supports flock; set ORCHESTRATOR_RUNS_ROOT to a directory on one"
                ) from error
            raise self._fault("is not to be had any more", error) from error
        self._committing = locked or self._committing
        return locked

    def _unlock(self) -> None:
        self._committing = False
        self._told_size = -1
        self._disk.unlock()

    async def _catch_up(self) -> list[Entry]:
        """Under the lock: read to the end, and cut a torn tail, which nobody is writing now."""
        seen: list[Entry] = []
        while True:
            batch = self._follower.next_batch()
            seen += batch.entries
            if batch.torn:
                await self._cut_torn_tail()
            if not batch.entries:
                return seen

    async def _cut_torn_tail(self) -> None:
        try:
            await self._disk.set_aside(self._follower.rest())
            await self._disk.truncate(self._follower.offset)
        except OSError as error:
            raise self._fault("its torn end cannot be cut", error) from error

    async def _append(self, data: bytes) -> None:
        try:
            written = await self._disk.append(data)
        except SyncFailed as error:
            # What the kernel says of later syncs means nothing after one has failed.
            self._broken = (
                f"{self._disk.name}: the disk failed to sync ({error.strerror}): check the disk,"
                " then run the same command again; it goes on from what is recorded"
            )
            await self._roll_back()
            raise EnvironmentFault(self._broken) from error
        except OSError as error:
            await self._roll_back()
            raise self._fault("cannot be written", error) from error
        if written < len(data):
            await self._roll_back()
            raise EnvironmentFault(
                f"{self._disk.name}: the disk took {written} of {len(data)} bytes: free some"
                " space, then run the same command again; it goes on from what is recorded"
            )

    async def _roll_back(self) -> None:
        try:
            await self._disk.truncate(self._follower.offset)
        except OSError as error:
            # The next writer finds a torn tail and cuts it; this one has lost its footing.
            self._broken = str(self._fault("a failed write cannot be taken back", error))

    def _fault(self, what: str, error: OSError) -> EnvironmentFault:
        return EnvironmentFault(
            f"{self._disk.name}: {what} ({error.strerror}): check the space on the disk and who"
            " may write there, then run the same command again; it goes on from what is recorded"
        )
