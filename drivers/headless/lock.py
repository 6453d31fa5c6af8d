"""One driver per run: a lock that the kernel drops with the process that holds it.

A lock can be lost, as a file can be deleted under who has locked it.  So the last driver's own
word, and whether that very process lives, is heard as well.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from orchestrator.core.errors import Blocked, EnvironmentFault, in_full
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import DriverStatus

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})


LastDriver = Callable[[], DriverStatus]


@contextmanager
def the_only_driver(store: RunStore, last_driver: LastDriver = DriverStatus) -> Iterator[None]:
    """Raises Blocked where another driver of the run is live."""
    try:
        fd = os.open(store.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise EnvironmentFault(in_full(error, f"cannot open {store.lock_path}")) from error
    try:
        _lock(fd, store)
        _require_same_file(fd, store)
        if (driver := last_driver()).state == "live" and driver.pid != os.getpid():
            raise _another(store, str(driver.pid))
        _say_who(fd)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, store: RunStore) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "?"
        raise _another(store, pid) from None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise EnvironmentFault(
                f"{store.lock_path}: the file system does not support locks; "
                f"set ORCHESTRATOR_RUNS_ROOT to a local disk"
            ) from error
        raise EnvironmentFault(in_full(error, f"cannot lock {store.lock_path}")) from error


def _another(store: RunStore, pid: str) -> Blocked:
    return Blocked(
        f"run {store.run_id}: another driver is live (pid {pid}); watch it with "
        f"`orchestrator --run {store.run_id} watch`, or stop it with `stop`"
    )


def _require_same_file(fd: int, store: RunStore) -> None:
    """It may have been deleted since it was opened: another driver can then lock a new one."""
    with suppress(FileNotFoundError):
        here, there = os.fstat(fd), os.stat(store.lock_path)
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return
    raise Blocked(f"run {store.run_id}: {store.lock_path} was just replaced; run it again")


def _say_who(fd: int) -> None:
    """For the message of the next one: nothing depends on it, so a full disk does not matter."""
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
