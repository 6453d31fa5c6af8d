"""The operating system, as product modules see it in a simulation: os, fcntl, time, Path, open.

installed() puts these in the place of the names that the product's modules use, so what runs is
the product, to the line: stems and locks, supervision, recovery's look, the journal's disk.
Invariant: every call that changes the world is one step of the calling process, which may be
its last; a module that needs a call which is not here fails with its name.
"""

import errno
import fcntl
import logging
import os
import random
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import msgspec
import trio

from adapters.execution import appetite, guard, stems, supervise
from adapters.execution.claude import session
from adapters.host import processes, slots, waiting
from adapters.host.slots import Slots
from adapters.host.usage import Usage
from adapters.host.watcher import Changed
from drivers.headless import heartbeat, lock
from orchestrator import given_file
from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.resources import Resources
from orchestrator.journal import disk, read
from tests.simulation.machine import (
    PROCESS,
    Description,
    File,
    Killed,
    Machine,
    Process,
    require_alive,
)

LOOK_AGAIN_S = 3600.0
"""The virtual kernel tells of every change, so what looks again by itself does it seldom."""

SLOW_S = 4.0
"""A call to the disk of so long is counted as a fault."""
EXEC_S_MAX = 0.03
"""Between fork and exec of a shim, on a busy machine."""
DESCRIPTORS_FROM = 1 << 20
"""So that a call which goes past the virtual system finds no descriptor, instead of a real one."""


class NotVirtual(BaseException):
    """The product makes a call that is not simulated: it has to be added here."""


class VirtualPath(str):
    """As much of pathlib.Path as the modules above use, on the machine's files."""

    __slots__ = ()
    machine: Machine

    def __truediv__(self, name: str) -> "VirtualPath":
        return VirtualPath(f"{self}/{name}")

    @property
    def name(self) -> str:
        return self.rsplit("/", 1)[-1]

    @property
    def parent(self) -> "VirtualPath":
        return VirtualPath(self.rsplit("/", 1)[0])

    @property
    def stem(self) -> str:
        return self.name.rsplit(".", 1)[0]

    def with_suffix(self, suffix: str) -> "VirtualPath":
        return VirtualPath(str(self).rsplit(".", 1)[0] + suffix)

    def with_name(self, name: str) -> "VirtualPath":
        return self.parent / name

    def __getattr__(self, name: str) -> Any:
        raise NotVirtual(f"Path.{name}")

    def stat(self) -> "VirtualStat":
        stat: VirtualStat = self.machine.system.os.stat(self)
        return stat

    def rename(self, target: str) -> None:
        """Whole, under the new name; both lasting only from the next sync."""
        self.machine.system.step()
        file = self.machine.files.pop(str(self))
        file.is_named = False
        self.machine.files[str(target)] = file
        self.machine.tell(str(target))

    replace = rename  # type: ignore[assignment]

    def exists(self) -> bool:
        require_alive(PROCESS.get())
        return str(self) in self.machine.files

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        require_alive(PROCESS.get())

    def unlink(self, *, missing_ok: bool = False) -> None:
        self.machine.system.step()
        if self.machine.files.pop(str(self), None) is None and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(self))

    def open(self, mode: str = "r") -> "VirtualFile":
        flags = os.O_RDONLY if mode == "rb" else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        system = self.machine.system
        return VirtualFile(system, system.os.open(self, flags))

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str, errors: str = "strict") -> str:
        return self.read_bytes().decode(encoding, errors)

    def write_bytes(self, data: bytes) -> None:
        with self.open("wb") as file:
            file.write(data)


class VirtualFile:
    def __init__(self, system: "System", fd: int) -> None:
        self._os = system.os
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def read(self, bytes_max: int = 1 << 40) -> bytes:
        return self._os.read(self._fd, bytes_max)

    def write(self, data: bytes) -> None:
        while data:
            data = data[self._os.write(self._fd, data) :]

    def flush(self) -> None:
        pass

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._os.lseek(self._fd, offset, whence)

    def __enter__(self) -> "VirtualFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._os.close(self._fd)


class System:
    """The calls of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.os = VirtualOs(self)
        self.fcntl = VirtualFcntl(self)
        self.time = VirtualTime(machine)

    def step(self) -> Process:
        """One call that changes the world, by a process that may be killed at it."""
        process = PROCESS.get()
        if not process.is_alive:
            raise Killed
        process.steps += 1
        if process.steps == process.dies_at_step:
            is_driver = process.name == "driver"
            self.machine.struck["kill at a step" if is_driver else "command killed"] += 1
            self.machine.end(process, signal.SIGKILL)
            raise Killed
        return process

    def count_write(self, path: str) -> None:
        process = PROCESS.get()
        if process.writes_left and path == process.dies_at_write_of:
            process.writes_left -= 1
            if process.writes_left == 0:
                self.machine.struck["kill in a write"] += 1
                self.machine.end(process, -signal.SIGKILL)
                raise Killed

    def description(self, fd: int) -> Description:
        process = PROCESS.get()
        require_alive(process)
        if fd not in process.descriptors:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return process.descriptors[fd]

    def new_descriptor(self, process: Process, description: Description) -> int:
        if process.fails_with == errno.EMFILE:
            self.machine.struck["no descriptors"] += 1
            raise OSError(process.fails_with, os.strerror(process.fails_with))
        fd = DESCRIPTORS_FROM
        while fd in process.descriptors:
            fd += 1
        process.descriptors[fd] = description
        description.descriptors += 1
        return fd


class VirtualOs:
    O_RDONLY, O_RDWR, O_WRONLY = os.O_RDONLY, os.O_RDWR, os.O_WRONLY
    O_CREAT, O_EXCL, O_APPEND, O_TRUNC = os.O_CREAT, os.O_EXCL, os.O_APPEND, os.O_TRUNC
    O_CLOEXEC, O_NONBLOCK, O_NOCTTY = os.O_CLOEXEC, os.O_NONBLOCK, os.O_NOCTTY
    SEEK_CUR, SEEK_END, WNOHANG = os.SEEK_CUR, os.SEEK_END, os.WNOHANG
    POSIX_SPAWN_OPEN, POSIX_SPAWN_DUP2 = os.POSIX_SPAWN_OPEN, os.POSIX_SPAWN_DUP2
    devnull = os.devnull
    environ: dict[str, str] = {}  # noqa: RUF012 - a process with an empty one
    strerror = staticmethod(os.strerror)
    fsencode = staticmethod(os.fsencode)
    fspath = staticmethod(os.fspath)

    class path:  # noqa: N801 - as it is called
        @staticmethod
        def realpath(path: str) -> str:
            return str(path)

        basename = staticmethod(os.path.basename)
        split = staticmethod(os.path.split)

        @staticmethod
        def isdir(path: str) -> bool:
            return True

    def __init__(self, system: System) -> None:
        self._system = system
        self._machine = system.machine

    def __getattr__(self, name: str) -> Any:
        raise NotVirtual(f"os.{name}")

    def makedirs(self, path: str, mode: int, *, exist_ok: bool) -> None:
        require_alive(PROCESS.get())

    def getpid(self) -> int:
        return PROCESS.get().pid

    def getppid(self) -> int:
        return 1

    def getpgid(self, pid: int) -> int:
        return pid

    getsid = getpgid

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        path = str(path)
        process = PROCESS.get()
        require_alive(process)
        file = self._machine.files.get(path)
        if file is not None and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if process.fails_with == errno.EMFILE:
            self._machine.struck["no descriptors"] += 1
            raise OSError(process.fails_with, os.strerror(process.fails_with), path)
        if file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self._system.step()
            file = self._machine.create(path)
        elif flags & os.O_TRUNC and file.data:
            self._system.step()
            file.cut, file.synced = bytes(file.data), 0
            file.data.clear()
        return self._system.new_descriptor(process, Description(path, file))

    def close(self, fd: int) -> None:
        self._system.description(fd).close()
        del PROCESS.get().descriptors[fd]

    def read(self, fd: int, bytes_max: int) -> bytes:
        description = self._system.description(fd)
        start = description.offset
        data = bytes(description.file.data[start : start + bytes_max])
        description.offset += len(data)
        return data

    def pread(self, fd: int, bytes_max: int, offset: int) -> bytes:
        return bytes(self._system.description(fd).file.data[offset : offset + bytes_max])

    def write(self, fd: int, data: bytes) -> int:
        """Two steps: the process may die before the write, or with a part of it done."""
        description = self._system.description(fd)
        self._system.step()
        file, path = description.file, description.path
        PROCESS.get().wrote.add(path)
        try:
            self._system.step()
            self._system.count_write(path)
        except Killed:
            self._machine.write_to(file, path, _part_of(data, self._machine.rng))
            raise
        return self._machine.write_to(file, path, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        file = self._system.description(fd).file
        self._system.step()
        file.data[offset : offset + len(data)] = data
        return len(data)

    def lseek(self, fd: int, offset: int, whence: int) -> int:
        description = self._system.description(fd)
        base = {os.SEEK_SET: 0, os.SEEK_CUR: description.offset, os.SEEK_END: None}[whence]
        description.offset = (len(description.file.data) if base is None else base) + offset
        return description.offset

    def fstat(self, fd: int) -> "VirtualStat":
        return VirtualStat(self._system.description(fd).file)

    def stat(self, path: str) -> "VirtualStat":
        require_alive(PROCESS.get())
        if str(path) not in self._machine.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return VirtualStat(self._machine.files[str(path)])

    def ftruncate(self, fd: int, size: int) -> None:
        description = self._system.description(fd)
        self._system.step()
        file = description.file
        if size < len(file.data):
            file.cut = bytes(file.data[max(size, file.synced) :])
            if self._machine.room is not None:
                self._machine.room += len(file.data) - size
            del file.data[size:]
            file.synced = min(file.synced, size)
            self._machine.tell(description.path)

    def fsync(self, fd: int) -> None:
        description = self._system.description(fd)
        self._system.step()
        self._machine.sync(description.file, description.path)
        self._system.step()

    fdatasync = fsync

    def kill(self, pid: int, number: int) -> None:
        self._system.step()
        self._machine.signal(pid, number)

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        process = self._machine.table.get(pid)
        if process is not None and process.parent is PROCESS.get():
            return 0, 0
        raise ChildProcessError(errno.ECHILD, "No child processes")

    def posix_spawn(
        self,
        path: str,
        argv: list[str],
        env: dict[str, str],
        *,
        file_actions: list[tuple[int, ...]],
        setsid: bool,
        setsigmask: tuple[int, ...],
    ) -> int:
        parent = self._system.step()
        if parent.fails_with is not None:
            is_emfile = parent.fails_with == errno.EMFILE
            self._machine.struck["no descriptors" if is_emfile else "no processes"] += 1
            raise OSError(parent.fails_with, os.strerror(parent.fails_with))
        tag = b"ORCHESTRATOR_STEM=" + os.fsencode(env["ORCHESTRATOR_STEM"]) + b"\0"
        child = self._machine.start("shim", parent=parent)

        def execute() -> None:
            child.environment = tag  # until then it is a copy of its parent, with its environment

        exec_s = self._machine.rng.choice((0.0, self._machine.rng.uniform(0, EXEC_S_MAX)))
        self._machine.clock.after(exec_s, execute)
        for action in file_actions:
            if action[0] == os.POSIX_SPAWN_DUP2:
                description = parent.descriptors[action[1]]
                child.descriptors[action[2]] = description
                description.descriptors += 1
        split = argv.index("--")
        words = dict(word.split("=", 1) for word in argv[4:split])
        self._machine.on_spawn(child, {**words, "argv": "\0".join(argv[split + 1 :])})
        self._system.step()
        return child.pid


def _part_of(data: bytes, rng: random.Random) -> bytes:
    """What a writer that dies leaves of it: a few whole lines, or any part."""
    if rng.random() < 0.5:
        whole = data[: rng.randrange(len(data) + 1)]
        return whole[: whole.rfind(b"\n") + 1]
    return data[: rng.randrange(len(data) + 1)]


class VirtualStat:
    st_dev = 1
    st_mode = stat.S_IFREG | 0o644

    def __init__(self, file: File) -> None:
        self.st_ino = id(file)
        self.st_size = len(file.data)


class VirtualFcntl:
    LOCK_EX, LOCK_SH, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_NB, fcntl.LOCK_UN
    F_DUPFD_CLOEXEC = fcntl.F_DUPFD_CLOEXEC

    def __init__(self, system: System) -> None:
        self._system = system

    def flock(self, fd: int, how: int) -> None:
        description = self._system.description(fd)
        holders = description.file.holders
        if how & fcntl.LOCK_UN:
            holders.pop(description, None)
            return
        wants_all = bool(how & fcntl.LOCK_EX)
        for other, has_all in holders.items():
            if other is not description and (wants_all or has_all):
                raise BlockingIOError(errno.EWOULDBLOCK, "Resource temporarily unavailable")
        if wants_all:
            self._system.step()
        holders[description] = wants_all

    def fcntl(self, fd: int, command: int, at_least: int) -> int:
        assert command == fcntl.F_DUPFD_CLOEXEC
        description = self._system.description(fd)
        return self._system.new_descriptor(PROCESS.get(), description)


class VirtualTime:
    def __init__(self, machine: Machine) -> None:
        self.time = machine.wall
        self.monotonic = machine.monotonic

    def sleep(self, seconds: float) -> None:
        """A blocking one holds up the whole process; there is nothing that could change."""


class VirtualWatcher:
    """adapters.host.watcher.FileWatcher: the machine tells."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @contextmanager
    def watch(self, *paths: str) -> Iterator[Changed]:
        changed = Changed()
        for path in paths:
            self._machine.watchers.setdefault(str(path), []).append(changed.set)
        try:
            yield changed
        finally:
            for path in paths:
                self._machine.watchers[str(path)].remove(changed.set)


class VirtualHost:
    """orchestrator.ports.host.Host, for the calling process."""

    def __init__(self, machine: Machine, slots: Slots | None = None) -> None:
        self._machine = machine
        self._slots = slots
        self.now = machine.wall

    def identity(self) -> HostIdentity:
        return self._machine.host()

    def this_process(self) -> ProcessIdentity:
        return PROCESS.get().identity

    def resources(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources:
        free = None if self._slots is None else self._slots.free(children_max)
        return msgspec.structs.replace(self._machine.resources, host_children_free=free)


class VirtualMemory:
    """adapters.host.memory, as far as it says that memory ran out."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def oom_kills(self) -> int:
        return self._machine.oom_kills

    def is_under_pressure(self) -> bool:
        return False


@contextmanager
def installed(machine: Machine) -> Iterator[System]:
    """Let the product's modules run on this machine."""
    system = machine.system = System(machine)
    VirtualPath.machine = machine
    opened = {"open": lambda fd, mode: VirtualFile(system, fd)}
    calls = {"os": system.os, "fcntl": system.fcntl, "time": system.time, "Path": VirtualPath}
    places: list[tuple[Any, dict[str, Any]]] = [
        *(
            (module, {name: call for name, call in calls.items() if hasattr(module, name)})
            for module in _supervision()
        ),
        (supervise, {"LOOK_AGAIN_S": LOOK_AGAIN_S}),
        (
            processes,
            {
                "os": system.os,
                "_entry": lambda pid: _entry(machine, pid),
                "_pids": lambda: sorted(machine.table),
                "_environment": lambda pid: _environment(machine, pid),
                "_open_pidfd": lambda pid: None,
            },
        ),
        (waiting, {"wait_for_exit": lambda identity: _wait_for_exit(machine, identity)}),
        (
            disk,
            {
                "os": system.os,
                "fcntl": system.fcntl,
                **opened,
                "_datasync": system.os.fdatasync,
                "DiskThread": lambda: VirtualThread(machine),
            },
        ),
        (read, {"os": system.os}),
        (given_file, {"os": system.os, **opened}),
        (stems, opened),
        (heartbeat, {"os": system.os}),
        (lock, {"os": system.os, "fcntl": system.fcntl}),
        (
            session,
            {
                "transcripts": lambda env, name: _transcripts(machine, name),
                "is_resumable": lambda env, name: bool(_transcripts(machine, name)),
                "transcript_bytes": lambda env, name: 0,
            },
        ),
        (slots, {"os": system.os, "fcntl": system.fcntl, "time": system.time}),
        (
            appetite,
            {
                "LOOK_S": LOOK_AGAIN_S,
                "usage_of": lambda trees: [Usage() for _ in trees],
                "memory": VirtualMemory(machine),
            },
        ),
        (guard, {"cpu_of_trees": lambda roots: sum(machine.cpu_s(root.pid) for root in roots)}),
        (trio.to_thread, {"run_sync": VirtualThread(machine).run}),
    ]
    before: list[tuple[Any, str, Any]] = []
    log = logging.getLogger("orchestrator.execution")
    was_disabled, log.disabled = log.disabled, True
    try:
        for module, names in places:
            for name, value in names.items():
                before.append((module, name, getattr(module, name, _ABSENT)))
                setattr(module, name, value)
        yield system
    finally:
        log.disabled = was_disabled
        for module, name, value in reversed(before):
            if value is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, value)


_ABSENT = object()


def _supervision() -> list[ModuleType]:
    """All of adapters/execution that runs in the driver, but for the lanes."""
    package = "adapters.execution."
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(package) and "." not in name.removeprefix(package)
        if not name.endswith((".shim", ".shim_start"))
    ]


class VirtualThread:
    """A call that another thread makes: it takes the disk's time, and is not interrupted."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        seconds = self._machine.sync_s()
        self._machine.struck["sync of 4 s and more"] += seconds >= SLOW_S
        if self._machine.crowd is not None:
            self._machine.crowd.set()
            self._machine.crowd = None
            seconds += 0.05
        await self._machine.pause(seconds + PROCESS.get().slowness_s)
        return function(*args)

    def close(self) -> None:
        pass


def _entry(machine: Machine, pid: int) -> processes.Entry | None:
    process = machine.table.get(pid)
    if process is None:
        return None
    parent = process.parent
    while parent is not None and not parent.is_alive:
        parent = parent.parent
    return processes.Entry(parent.pid if parent else 1, pid, pid, process.start_time)


def _environment(machine: Machine, pid: int) -> bytes:
    process = machine.table.get(pid)
    return b"" if process is None else process.environment


def _transcripts(machine: Machine, session_id: str) -> list[str]:
    path = f"/transcripts/{session_id}.jsonl"
    return [path] if path in machine.files else []


async def _wait_for_exit(machine: Machine, identity: ProcessIdentity) -> None:
    process = machine.table.get(identity.pid)
    if process is None or process.identity != identity:
        await trio.lowlevel.checkpoint()
        return
    await machine.wait_for(process)
