"""A machine that keeps what a kill of the driver leaves: files, locks, processes, boots.

Processes are rows in a small table whose pids are used again.  Files have a part that a loss
of power spares.  Invariant: a process that is dead changes nothing any more; whatever it still
tries is a Killed.
"""

import errno
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import trio

from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.resources import Resources
from tests.simulation.clock import VirtualClock

EPOCH = 1_795_000_000.0
PIDS = range(100, 180)
"""Small, so that a pid comes back soon."""


class Killed(BaseException):
    """kill -9, raised where it strikes."""


@dataclass(eq=False)
class File:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    """Bytes that a loss of power spares."""
    cut: bytes = b""
    """What was truncated since the last sync: a loss of power may bring it back."""
    is_named: bool = False
    """Its name survives a loss of power."""
    holders: dict["Description", bool] = field(default_factory=dict)
    """Who has a lock on it; True: an exclusive one."""

    def sync(self) -> None:
        self.synced = len(self.data)
        self.cut = b""
        self.is_named = True


@dataclass(eq=False)
class Description:
    """An open file; descriptors that were inherited or duplicated share it, and its lock."""

    path: str
    file: File
    descriptors: int = 0
    offset: int = 0

    def close(self) -> None:
        self.descriptors -= 1
        if self.descriptors == 0:
            self.file.holders.pop(self, None)


@dataclass(eq=False)
class Process:
    pid: int
    start_time: int
    name: str
    parent: "Process | None" = None
    environment: bytes = b""
    is_stranger: bool = False
    on_signal: Callable[[int], None] | None = None
    """None: it does not run our code, and dies of what it is sent."""
    on_death: Callable[[], None] | None = None
    steps: int = 0
    """Calls so far that changed the world."""
    dies_at_step: int | None = None
    slowness_s: float = 0.0
    """Added to each call that it makes to the disk in another thread."""
    dies_at_write_of: str = ""
    wrote: set[str] = field(default_factory=set)
    """Files."""
    writes_left: int = 0
    """Of the file above: it dies in the last of them."""
    fails_with: int | None = None
    """An errno that every new descriptor and process meets: EMFILE, ENOMEM."""
    descriptors: dict[int, Description] = field(default_factory=dict)
    idles: bool = False
    """It uses no processor time."""
    is_alive: bool = True
    waiters: set[trio.Event] = field(default_factory=set)
    """Told of its death: those that wait for it, and its own waits."""
    status: int = 0

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(pid=self.pid, start_time=self.start_time)


PROCESS: ContextVar[Process] = ContextVar("PROCESS")
"""On whose behalf a trio task runs."""


class Machine:
    def __init__(self, rng: random.Random, clock: VirtualClock) -> None:
        self.rng = rng
        self.clock = clock
        self.struck: Counter[str] = Counter()
        """How often each fault took effect."""
        self.files: dict[str, File] = {}
        self.watchers: dict[str, list[trio.Event | Callable[[], None]]] = {}
        self.table: dict[int, Process] = {}
        self.boots = 0
        self.wall_offset = 0.0
        self.power_lost_at = -1.0
        self.resources = Resources()
        """What is left, places for children aside: those are files."""
        self.oom_kills = 0
        self.room: int | None = None
        """Bytes that still fit on the disk; None: no end."""
        self.sync_fails_of = ""
        """Syncs of files whose paths end so fail with EIO; "/": of all."""
        self.writes_fail_of = ""
        self.sync_s: Callable[[], float] = lambda: 0.0
        """How long the next call to the disk takes."""
        self.call_s: Callable[[], float] = lambda: 0.0
        """How long the next call to git takes."""
        self.on_signal: Callable[[Process, int], None] = lambda process, number: None
        self.on_spawn: Callable[[Process, dict[str, str]], None] = lambda process, words: None
        self.system: Any = None
        self.crowd: trio.Event | None = None
        """Somebody waits for a process to be in the middle of a call to the disk."""
        self.boot()

    # -- time and identity -----------------------------------------------------------------

    def boot(self) -> None:
        """Pids and start times begin again, with what every boot starts first."""
        self.boots += 1
        self.booted_at = self.clock.now
        self._ticks = 0
        self._next_pid = PIDS.start
        for _ in range(self.rng.randint(0, 8) if self.boots > 1 else 0):
            self.start("daemon").is_stranger = True

    def wall(self) -> float:
        return EPOCH + self.clock.now + self.wall_offset

    def monotonic(self) -> float:
        return self.clock.now - self.booted_at

    def host(self) -> HostIdentity:
        return HostIdentity(hostname="sim", machine_id="m", boot_id=f"boot-{self.boots}")

    # -- processes ---------------------------------------------------------------------------

    def start(
        self, name: str, *, parent: Process | None = None, environment: bytes = b""
    ) -> Process:
        for _ in PIDS:
            pid = self._next_pid
            self._next_pid = pid + 1 if pid + 1 in PIDS else PIDS.start
            if pid not in self.table:
                break
        else:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._start_as(pid, name, parent, environment)

    def start_stranger(self, pid: int) -> Process | None:
        """A process that is none of ours, with a pid that one of ours may have had."""
        if pid in self.table:
            return None
        stranger = self._start_as(pid, "stranger", None, b"")
        stranger.is_stranger = True
        return stranger

    def _start_as(self, pid: int, name: str, parent: Process | None, environment: bytes) -> Process:
        self._ticks += 1
        process = Process(pid, self._ticks, name, parent, environment)
        self.table[pid] = process
        return process

    def end(self, process: Process, status: int = 0) -> None:
        """At once: its locks are free, its waiters told, its pid can be used again."""
        if not process.is_alive:
            return
        process.is_alive = False
        process.status = status
        del self.table[process.pid]
        for description in list(process.descriptors.values()):
            description.close()
        process.descriptors.clear()
        for waiter in process.waiters:
            waiter.set()
        if process.on_death is not None:
            process.on_death()

    def signal(self, pid: int, number: int) -> None:
        process = self.table.get(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        self.on_signal(process, number)
        if number == signal.SIGKILL or process.on_signal is None:
            self.end(process, status=-number)
        else:
            process.on_signal(number)

    def cpu_s(self, pid: int) -> float:
        process = self.table.get(pid)
        return 0.0 if process is None or process.idles else self.monotonic()

    def descendants(self, roots: list[Process]) -> list[Process]:
        found = [p for p in self.table.values() if any(_descends(p, root) for root in roots)]
        return sorted(found, key=lambda p: p.pid)

    async def wait_for(self, process: Process) -> None:
        """Until it is dead, or the caller is."""
        me = PROCESS.get()
        told = trio.Event()
        if process.is_alive and me.is_alive:
            process.waiters.add(told)
            me.waiters.add(told)
            try:
                await told.wait()
            finally:
                process.waiters.discard(told)
                me.waiters.discard(told)
        require_alive(me)

    async def pause(self, seconds: float) -> None:
        """A call that takes its time and is not interrupted, except by a kill."""
        me = PROCESS.get()
        require_alive(me)
        if seconds > 0:
            told = trio.Event()
            me.waiters.add(told)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds):
                await told.wait()
            me.waiters.discard(told)
        require_alive(me)

    # -- files -----------------------------------------------------------------------------------

    def create(self, path: str) -> File:
        file = self.files[path] = File()
        self.tell(path)
        return file

    def write(self, path: str, data: bytes, *, may_be_short: bool = True) -> int:
        """Append.  Takes what fits; raises ENOSPC where nothing does."""
        file = self.files.get(path) or self.create(path)
        return self.write_to(file, path, data, may_be_short=may_be_short)

    def write_to(self, file: File, path: str, data: bytes, *, may_be_short: bool = True) -> int:
        if self.writes_fail_of and path.endswith(self.writes_fail_of):
            self.struck["write fails"] += 1
            raise OSError(errno.EIO, "Input/output error", path)
        if self.room is not None:
            if self.room <= 0 or (self.room < len(data) and not may_be_short):
                self.struck["no space"] += 1
                raise OSError(errno.ENOSPC, "No space left on device", path)
            self.struck["short write"] += self.room < len(data)
            data = data[: self.room]
            self.room -= len(data)
        file.data += data
        self.tell(path)
        return len(data)

    def sync(self, file: File, path: str) -> None:
        if self.sync_fails_of == "/" or (self.sync_fails_of and path.endswith(self.sync_fails_of)):
            self.struck["sync fails"] += 1
            raise OSError(errno.EIO, "Input/output error")
        file.sync()

    def tell(self, path: str) -> None:
        for told in self.watchers.get(path, ()):
            told()  # type: ignore[operator]

    # -- disasters ---------------------------------------------------------------------------------

    def reboot(self) -> None:
        """Everything dies; what was written is kept."""
        self._end_all()
        for file in self.files.values():
            file.sync()
        self.boot()

    def lose_power(self) -> None:
        """Everything dies; of what was not synced, some is kept, some torn, some lost."""
        self.power_lost_at = self.clock.now
        self._end_all()
        for path in sorted(self.files):
            file = self.files[path]
            if file.synced == len(file.data) and file.is_named and not file.cut:
                continue
            unsynced, was_named = bytes(file.data[file.synced :]) or file.cut, file.is_named
            if not file.is_named and self.rng.random() < 0.5:
                self.struck["directory entry lost"] += 1
                del self.files[path]
                continue
            kept = self._torn(unsynced)
            self.struck["name kept, content lost"] += not was_named and kept != unsynced
            self.struck["un-synced end lost"] += was_named and kept != unsynced
            file.data = file.data[: file.synced] + kept
            file.sync()
        self.boot()

    def _torn(self, unsynced: bytes) -> bytes:
        kept = self.rng.choice((0, len(unsynced), self.rng.randint(0, len(unsynced))))
        if self.rng.random() < 0.15:
            self.struck["length kept, content lost"] += kept > 0
            return bytes(kept)
        return unsynced[:kept]

    def _end_all(self) -> None:
        while self.table:
            self.end(next(iter(self.table.values())), status=-signal.SIGKILL)


def _descends(process: Process, root: Process) -> bool:
    while process.parent is not None:
        process = process.parent
        if process is root:
            return True
    return False


def require_alive(process: Process) -> None:
    if not process.is_alive:
        raise Killed


@contextmanager
def acting_as(process: Process) -> Iterator[None]:
    token = PROCESS.set(process)
    try:
        yield
    finally:
        PROCESS.reset(token)
