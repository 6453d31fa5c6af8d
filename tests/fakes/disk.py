"""A disk in memory that can lose power, run full and fail, as the real ones do.

MemoryFile is the file: what programs see, and what a loss of power leaves.  Each
process has a MemoryDisk on it.  No threads; the only waits are for the lock and for
a change, so a simulation on a mock clock can use it.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from orchestrator.ports.disk import SyncFailed


@dataclass
class MemoryFile:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    aside: list[bytes] = field(default_factory=list)
    holder: "MemoryDisk | None" = None
    changed: trio.Event = field(default_factory=trio.Event)
    room: int | None = None
    """Bytes that still fit; None: no end."""

    def lose_power(self, keep: Callable[[bytes], bytes] = lambda unsynced: b"") -> None:
        """Only what was synced is left, and ``keep`` of what was not."""
        synced = min(len(self.durable), len(self.data))
        self.data = bytearray(self.durable + keep(bytes(self.data[synced:])))
        self.durable = bytes(self.data)
        self.holder = None

    def tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class MemoryDisk:
    """orchestrator.ports.disk.Disk over a MemoryFile."""

    name = "memory:events.jsonl"

    def __init__(self, file: MemoryFile | None = None) -> None:
        self.file = file or MemoryFile()
        self.fail_write: int | None = None
        self.fail_sync: int | None = None
        self.fail_lock: int | None = None
        self.syncs = 0
        self._seen = self.file.changed

    def die(self) -> None:
        """The kernel drops the lock of a process that is gone."""
        if self.file.holder is self:
            self.file.holder = None

    def size(self) -> int:
        return len(self.file.data)

    def read(self, offset: int, bytes_max: int) -> bytes:
        return bytes(self.file.data[offset : offset + bytes_max])

    async def lock(self, wait_s: float) -> bool:
        await trio.lowlevel.checkpoint()
        if self.fail_lock is not None:
            raise OSError(self.fail_lock, "No locks available")
        give_up_at = trio.current_time() + wait_s
        while self.file.holder is not None:
            if trio.current_time() >= give_up_at:
                return False
            await trio.sleep(0.01)
        self.file.holder = self
        return True

    def unlock(self) -> None:
        assert self.file.holder is self
        self.file.holder = None

    async def append(self, data: bytes) -> int:
        if self.fail_write is not None:
            raise OSError(self.fail_write, "injected")
        file = self.file
        if file.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = len(data) if file.room is None else min(file.room, len(data))
        file.data += data[:written]
        if file.room is not None:
            file.room -= written
        file.tell()
        if written == len(data):
            if self.fail_sync is not None:
                raise SyncFailed(self.fail_sync, "injected")
            self.syncs += 1
            file.durable = bytes(file.data)
        return written

    async def truncate(self, size: int) -> None:
        if self.file.room is not None:
            self.file.room += len(self.file.data) - size
        del self.file.data[size:]
        self.file.tell()

    async def set_aside(self, data: bytes) -> str:
        self.file.aside.append(data)
        return f"memory:events.torn-{len(self.file.aside)}"

    async def changed(self) -> None:
        await self._seen.wait()
        self._seen = self.file.changed
