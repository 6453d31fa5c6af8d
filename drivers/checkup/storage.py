"""The runs root and the repository: can they be written, locked and synced, and is there room?"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from drivers.checkup.check import Check, fail, ok, warn

FREE_MIN_BYTES = 200_000_000
FREE_WANTED_BYTES = 2_000_000_000


def existing(path: Path) -> Path:
    """The directory itself, or the nearest one above it that exists: where it would be made."""
    return next(it for it in (path, *path.parents) if it.is_dir())


def runs_root(path: Path) -> Check:
    where = existing(path)
    mend = f"make {path} writable, or set ORCHESTRATOR_RUNS_ROOT to a directory that is"
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return fail("runs root", f"{where}: {(error.strerror or str(error)).lower()}", mend=mend)
    return ok("runs root", str(path) if where == path else f"{path} (to be made)")


def locks(path: Path) -> Check:
    """Whether flock works there, and keeps others out: all safety after a crash hangs on it."""
    mend = "set ORCHESTRATOR_RUNS_ROOT to a local disk: some network file systems have no flock"
    try:
        with tempfile.NamedTemporaryFile(dir=existing(path)) as one, open(one.name) as other:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return ok("file locks", "work")
    except OSError as error:
        return fail("file locks", (error.strerror or str(error)).lower(), mend=mend)
    return fail("file locks", "two processes can hold the same one", mend=mend)


def room(name: str, path: Path) -> Check:
    where = existing(path)
    free = shutil.disk_usage(where).free
    found = f"{free / 1e9:.1f} GB free at {where}"
    mend = "free some: each task has a worktree, each dispatch keeps its output"
    if free < FREE_MIN_BYTES:
        return fail(name, found, mend=mend)
    if free < FREE_WANTED_BYTES:
        return warn(name, found, mend=mend)
    return ok(name, found)
