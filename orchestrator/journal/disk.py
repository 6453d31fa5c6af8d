"""A journal's file on a real disk: descriptors, flock, and one thread that writes and syncs.

Invariant: nothing here holds up the trio loop for longer than a read takes; a disk
that does not answer stops the commit, not the heartbeats.
"""

import contextlib
import errno
import fcntl
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

import trio

from orchestrator.core.errors import EnvironmentFault, Starved, with_remedy
from orchestrator.journal.file import FileJournal
from orchestrator.journal.read import read_at
from orchestrator.ports.disk import SyncFailed

T = TypeVar("T")

POLL_S = 0.1
"""How often a change is looked for, where no watcher is given."""

DISK_ANSWERS_WITHIN_S = 120.0

_LOCK_POLL_S_MAX = 0.05

Changes = Callable[[], Awaitable[None]]
"""Returns soon after the file may have changed, also when it did since the last call."""


class _Call(Generic[T]):
    """A call that the thread is to make, and how its caller is told."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._token = trio.lowlevel.current_trio_token()
        self.done = trio.Event()
        self.error: BaseException | None = None
        self.value: T | None = None

    def make(self) -> None:
        try:
            self.value = self._function()
        except BaseException as error:  # noqa: BLE001  # it is raised again in the caller
            self.error = error
        with contextlib.suppress(trio.RunFinishedError):  # the caller gave up, and is gone
            self._token.run_sync_soon(self.done.set)


class DiskThread:
    """One thread, started when first needed, that makes blocking calls one after another.

    One, and always the same: fault injection counts system calls per thread.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call[object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[[], T]) -> T:
        """Not interrupted by cancellation; given up after ``DISK_ANSWERS_WITHIN_S``."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="disk", daemon=True)
            try:
                thread.start()
            except RuntimeError as fault:
                raise Starved(f"no thread can be started to write the journal: {fault}") from fault
            self._thread = thread
        call = _Call(function)
        self._calls.put(call)  # type: ignore[arg-type]
        with trio.CancelScope(shield=True, deadline=trio.current_time() + DISK_ANSWERS_WITHIN_S):
            await call.done.wait()
        if call.error is not None:
            raise call.error
        if not call.done.is_set():
            raise SyncFailed(errno.ETIMEDOUT, f"no answer for {DISK_ANSWERS_WITHIN_S:.0f} s")
        return call.value  # type: ignore[return-value]

    def close(self) -> None:
        if self._thread is not None:
            self._calls.put(None)
            self._thread = None

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()


class FileDisk:
    """orchestrator.ports.disk.Disk on one file that is there already."""

    def __init__(
        self,
        path: Path,
        *,
        changes: Changes | None = None,
        datasync: Callable[[int], None] | None = None,
    ) -> None:
        self._path = path
        self._datasync = datasync or _datasync
        self._changes = changes
        self._thread = DiskThread()
        self._locked = False
        """By this object: flock does not exclude its own descriptor."""
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            what = f"{path}: cannot be opened for writing"
            check = "check that the run directory is there, and that this user may write to it"
            raise EnvironmentFault(with_remedy(error, what, check)) from error

    @property
    def name(self) -> str:
        return str(self._path)

    def close(self) -> None:
        self._thread.close()
        os.close(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, bytes_max: int) -> bytes:
        return read_at(self._descriptor, offset, bytes_max)

    async def lock(self, wait_s: float) -> bool:
        give_up_at = trio.current_time() + wait_s
        pause_s = 0.001
        await trio.lowlevel.checkpoint()
        while not self._try_lock():
            if trio.current_time() >= give_up_at:
                return False
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LOCK_POLL_S_MAX)
        return True

    def unlock(self) -> None:
        self._locked = False
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    async def append(self, data: bytes) -> int:
        def write_and_sync() -> int:
            written = os.write(self._descriptor, data)
            if written == len(data):
                try:
                    self._datasync(self._descriptor)
                except OSError as error:
                    raise SyncFailed(error.errno, error.strerror) from error
            return written

        return await self._thread.run(write_and_sync)

    async def truncate(self, size: int) -> None:
        await self._thread.run(lambda: os.ftruncate(self._descriptor, size))

    async def set_aside(self, data: bytes) -> str:
        return await self._thread.run(lambda: self._set_aside(data))

    async def changed(self) -> None:
        if self._changes is None:
            await trio.sleep(POLL_S)
        else:
            await self._changes()

    def _try_lock(self) -> bool:
        if self._locked:
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            self._require_same_file()
        except OSError:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            raise
        self._locked = True
        return True

    def _require_same_file(self) -> None:
        there, here = os.stat(self._path), os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            raise OSError(errno.ESTALE, "another file has taken its place")

    def _set_aside(self, data: bytes) -> str:
        number = 1
        while True:
            path = self._path.with_name(f"{self._path.stem}.torn-{number}")
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
            except FileExistsError:
                number += 1
                continue
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            return str(path)


def open_journal(path: Path, run_id: str, *, changes: Changes | None = None) -> FileJournal:
    """The journal of a run that RunRoot.create() has made."""
    return FileJournal(FileDisk(path, changes=changes), run_id)


# macOS has no fdatasync, and there fsync does not reach the platter either.
_datasync = getattr(os, "fdatasync", os.fsync)
