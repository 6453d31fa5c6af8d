"""Files that others have made: opened and read at once, or not at all.

Invariant: nothing is waited for, and no more than the bound is held.  Where a person named a
pipe, a device or a directory it is refused by name; in the place of a file of ours it counts as
nothing, for whatever an agent may have put there holds nobody up.
"""

import errno
import os
import stat
from collections.abc import Mapping

WRITTEN_BYTES_MAX = 1 << 20
"""Of what a person writes by hand: a project file, a prompt template, a token."""
DATA_BYTES_MAX = 1 << 26
"""Of what a program may have made: tasks, a stage result, a scenario."""

_KINDS: Mapping[int, str] = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_given(path: str | os.PathLike[str], bytes_max: int = WRITTEN_BYTES_MAX) -> bytes:
    """Raises OSError, whose ``strerror`` says why in a person's words."""
    _require_file(os.stat(path), path)  # before it is opened: some devices do something then
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = _require_file(os.fstat(descriptor), path)
        is_larger = found.st_size > bytes_max
        data = b"" if is_larger else file.read(bytes_max + 1)
    if is_larger or len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"is larger than {in_words(bytes_max)}", os.fspath(path))
    return data


def open_file(path: str | os.PathLike[str]) -> int:
    """A descriptor to read from.  Raises OSError; FileNotFoundError also where no file stands."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as fault:
        if fault.errno == errno.ENXIO:  # a socket
            raise FileNotFoundError(errno.ENOENT, fault.strerror, fault.filename) from fault
        raise
    try:
        _require_file(os.fstat(descriptor), path)
    except OSError as fault:
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, fault.strerror, fault.filename) from fault
    return descriptor


def read_file(path: str | os.PathLike[str], bytes_max: int = -1) -> bytes:
    """All of it, or the first so many bytes.  Raises as ``open_file`` does."""
    with open(open_file(path), "rb") as file:
        return file.read(bytes_max)


def at_once(path: str, flags: int) -> int:
    """For ``open()``, as its opener: a pipe that nobody reads is refused, not waited for."""
    return os.open(path, flags | os.O_NONBLOCK, 0o644)


def in_words(size: int) -> str:
    return f"{size >> 20} MiB"


def _require_file(found: os.stat_result, path: str | os.PathLike[str]) -> os.stat_result:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise OSError(errno.EINVAL, f"is {kind}", os.fspath(path))
    return found
