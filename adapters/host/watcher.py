"""Being told that a file has grown or was replaced, in trio, without looking all the time.

Linux: one inotify descriptor for all, on the directories (so a file may be watched before it is
there).  Elsewhere, and where no inotify instance is to be had: a look every POLL_S.

Invariant: a change after ``watch()`` was entered, and after the last ``wait()`` returned, makes
the next ``wait()`` return.  Wake-ups may be spurious, and are spread COALESCE_S apart.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

POLL_S = 0.1
COALESCE_S = 0.02
"""At least this long between two looks at what has changed: bounds the cost of a busy file."""

MASK = 0x2 | 0x80 | 0x100 | 0x400  # IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE_SELF
IN_Q_OVERFLOW = 0x4000
READ_BYTES = 65536
HEADER = struct.Struct("iIII")


class Changed:
    """What a watch gives: an event that clears itself."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Also for others to wake the waiter: it is one task's single point of waiting."""
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = trio.Event()


class FileWatcher:
    """One per process; used from one trio run.

    Once opened, inotify's descriptor is kept to the end of that run: closing one takes the
    kernel 5 ms, in which the loop would stand still.
    """

    def __init__(self, *, use_inotify: bool = sys.platform == "linux") -> None:
        self._use_inotify = use_inotify
        self._watches: dict[str, dict[str, list[Changed]]] = {}
        """Directory -> file name -> who is told."""
        self._inotify: Inotify | None = None
        self._looked_at: dict[str, dict[str, object]] = {}
        """Directories that inotify does not cover -> file name -> what was seen last."""
        self._looking: trio.CancelScope | None = None

    @contextmanager
    def watch(self, *paths: Path | str) -> Iterator[Changed]:
        """Be told of these files, there or not yet.  Their directories have to be there."""
        changed = Changed()
        places = [
            (os.path.realpath(directory), name) for directory, name in map(os.path.split, paths)
        ]
        for directory, name in places:
            self._add(directory, name, changed)
        try:
            yield changed
        finally:
            for directory, name in places:
                self._remove(directory, name, changed)

    def _add(self, directory: str, name: str, changed: Changed) -> None:
        is_new = directory not in self._watches
        self._watches.setdefault(directory, {}).setdefault(name, []).append(changed)
        if is_new and not self._told_by_inotify(directory):
            self._looked_at[directory] = {}
        if directory in self._looked_at:
            self._looked_at[directory].setdefault(name, _signature(directory, name))
            if self._looking is None:
                self._looking = trio.CancelScope()
                trio.lowlevel.spawn_system_task(self._look, self._looking)

    def _told_by_inotify(self, directory: str) -> bool:
        if not self._use_inotify:
            return False
        try:
            if self._inotify is None:
                self._inotify = Inotify()
                trio.lowlevel.spawn_system_task(self._read, self._inotify)
            self._inotify.add(directory)
        except OSError:  # a limit of the user's: instances, watches; or no such directory
            return False
        return True

    def _remove(self, directory: str, name: str, changed: Changed) -> None:
        names = self._watches[directory]
        names[name].remove(changed)
        if not names[name]:
            del names[name]
            self._looked_at.get(directory, {}).pop(name, None)
        if not names:
            del self._watches[directory]
            if self._looked_at.pop(directory, None) is None and self._inotify is not None:
                self._inotify.remove(directory)
        if not self._looked_at and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _read(self, inotify: "Inotify") -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(inotify.fd)
                for directory, name in inotify.read():
                    self._tell(directory, name)
                await trio.sleep(COALESCE_S)
        finally:
            self._inotify = None
            inotify.close()

    def _tell(self, directory: str | None, name: str | None) -> None:
        """None: all of them."""
        if directory is not None and name is not None:
            for changed in self._watches.get(directory, {}).get(name, ()):
                changed.set()
            return
        for one, names in self._watches.items():
            if directory in (None, one):
                for told in names.values():
                    for changed in told:
                        changed.set()

    async def _look(self, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await trio.sleep(POLL_S)
                for directory, names in self._looked_at.items():
                    for name, seen in names.items():
                        signature = _signature(directory, name)
                        if signature != seen:
                            names[name] = signature
                            self._tell(directory, name)


class Inotify:
    """The kernel's descriptor, and which directory each of its numbers means."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._directories: dict[int, str] = {}

    def add(self, directory: str) -> None:
        path = os.fsencode(directory)
        number = self._checked(self._libc.inotify_add_watch(self.fd, path, MASK))
        self._directories[number] = directory

    def remove(self, directory: str) -> None:
        for number, one in list(self._directories.items()):
            if one == directory:
                del self._directories[number]
                self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> set[tuple[str | None, str | None]]:
        """Which file of which directory; None: it cannot be told, so any."""
        told: set[tuple[str | None, str | None]] = set()
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return told
        offset = 0
        while offset < len(data):
            number, mask, _, length = HEADER.unpack_from(data, offset)
            offset += HEADER.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            if mask & IN_Q_OVERFLOW:
                told.add((None, None))
            elif number in self._directories:
                told.add((self._directories[number], name or None))
        return told

    def close(self) -> None:
        os.close(self.fd)

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _signature(directory: str, name: str) -> object:
    try:
        stat = os.stat(os.path.join(directory, name))
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
