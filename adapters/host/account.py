"""What the drivers of one account on this host share: a small file, and a lock for the canary.

``<name>.json`` is replaced whole under ``<name>.lock``; ``<name>.canary`` is locked by the
one driver that goes first after a limit, and the kernel drops that lock with the process.
Invariant: nothing that is wrong with these files ever stops a driver; it then goes alone,
and says why.
"""

import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from adapters.host import account_file
from adapters.host.account_file import Damaged, NotShared
from orchestrator.core.standing import Standing, merged

LOCK_WAIT_S = 1.0
LOCK_PAUSE_S = 0.01
"""It is held for the time of one small write."""


class AccountFile:
    """The Account port, for real."""

    changes: Callable[[], Awaitable[None]] | None = None
    """Returns soon after the file may have changed.  None: nobody is told."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.trouble = ""
        self.path = account_file.path_of(directory, name)
        self._lock_path = self.path.with_suffix(".lock")
        self._canary_path = self.path.with_suffix(".canary")
        self._canary: int | None = None

    def look(self) -> Standing:
        try:
            return account_file.read(self.path)
        except (OSError, NotShared) as problem:
            self._note(problem)
            return Standing()

    async def tell(self, known: Standing, *, now: float) -> None:
        try:
            make_directory(self.path.parent)
            with trio.CancelScope(shield=True):  # it is short, and LOCK_WAIT_S bounds it
                await self._tell(known, now)
        except (OSError, NotShared) as problem:
            self._note(problem)
        else:
            self.trouble = ""

    def try_canary(self) -> bool:
        if self._canary is not None:
            return True
        try:
            make_directory(self.path.parent)
            descriptor = _open(self._canary_path)
        except OSError as problem:
            self._note(problem)
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as problem:
            os.close(descriptor)
            self._note(problem)
            return True
        self._canary = descriptor
        return True

    def end_canary(self) -> None:
        if self._canary is not None:
            os.close(self._canary)
            self._canary = None

    async def changed(self) -> None:
        if self.changes is None:
            await trio.sleep_forever()
        else:
            await self.changes()

    async def _tell(self, known: Standing, now: float) -> None:
        lock = _open(self._lock_path)
        try:
            await _take(lock)
            try:
                held = account_file.read(self.path)
            except Damaged:
                held = Standing()
            more = merged(held, known, now)
            if more != held:
                account_file.replace(self.path, self.name, more)
        finally:
            os.close(lock)

    def _note(self, problem: Exception) -> None:
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        self.trouble = f"{self.path}: {why}"


def make_directory(path: Path) -> None:
    """For this user alone."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def _take(lock: int) -> None:
    await trio.lowlevel.checkpoint()
    for _ in range(round(LOCK_WAIT_S / LOCK_PAUSE_S)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await trio.sleep(LOCK_PAUSE_S)
        else:
            return
    raise NotShared(f"its lock is held for more than {LOCK_WAIT_S:g} s")
