"""Starting, following, finding and stopping a dispatch's processes through their shim.

Everything is a primitive over a stem; what a child's words mean is the lane's business, see
executor.py.

Invariant: nobody is signalled but through an identity that matches on this boot of this host,
and a driver that dies or is cancelled at any line leaves a child only under its shim.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import trio

from adapters.execution import shim_start
from adapters.execution.stems import ExitRecord, ShimRecord, Stem
from adapters.execution.tail import Tail
from adapters.host import cgroup, processes, waiting
from adapters.host.watcher import Changed, FileWatcher
from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.settings import Settings

LOOK_AGAIN_S = 2.0
"""A file system that tells nobody of a change is looked at this often."""
IDENTITY_WAIT_S = 30.0
"""How long a living shim may take to write who it is, before it is taken for stuck."""
SHIM_SLACK_S = 15.0
"""How far beyond its own bounds a shim may run before it is taken for stuck."""
ORPHAN_WAIT_S = 0.5
"""Between SIGTERM and SIGKILL for what a child left behind when it ended by itself."""
DEADLINE_S_MAX = 1e9
LOCK_FD = 3
SLOT_FD = 4
LOADER_NAMES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What this interpreter may have needed to find its own library."""


class Supervisor:
    def __init__(
        self,
        watcher: FileWatcher,
        host: HostIdentity,
        settings: Callable[[], Settings],
        shim_lost: Callable[[Stem], object] = lambda stem: None,
    ) -> None:
        """``shim_lost`` is told of a child that outlives its shim, before it is waited for."""
        self._watcher = watcher
        self._shim_lost = shim_lost
        self._host = host
        self._settings = settings
        self._locks: dict[str, int] = {}
        self._unreaped: set[int] = set()
        """Shims that we spawned: the kernel keeps a record of each until we have asked for it."""

    def lock(self, stem: Stem) -> None:
        """Hold the stem until spawn() hands it to a shim.  BlockingIOError: one lives."""
        if stem.path not in self._locks:
            self._locks[stem.path] = stem.take_lock()

    def unlock(self, stem: Stem) -> None:
        fd = self._locks.pop(stem.path, None)
        if fd is not None:
            os.close(fd)

    def spawn(
        self,
        stem: Stem,
        argv: tuple[str, ...],
        env: dict[str, str],
        *,
        cwd: str,
        is_worktree: bool = False,
        stdin: Path,
        deadline_s: float,
        slot: int | None = None,
    ) -> int:
        """Start a shim under a stem that lock() holds; its pid.  ``env`` is complete.  ``slot``:
        a descriptor that it is to hold as well.  ``is_worktree``: through a link to ``cwd``, or on
        the way there, the child is not started.

        Raises OSError or, for a NUL byte, ValueError: then nothing was started.

        It is a plain posix_spawn, half a millisecond: nobody waits here for the shim to be up,
        and nothing is left of it that could complain when this driver detaches.
        """
        self._reap()
        settings = self._settings()
        words = {
            "stem": stem.path,
            "cwd": cwd,
            "is_worktree": "1" if is_worktree else "",
            "stdin": str(stdin),
            "deadline_s": repr(min(deadline_s, DEADLINE_S_MAX)),
            "interrupt_wait_s": repr(settings.interrupt_wait_s),
            "terminate_wait_s": repr(settings.terminate_wait_s),
            "orphan_wait_s": repr(min(ORPHAN_WAIT_S, settings.terminate_wait_s)),
            "drop": ",".join(name for name in ("LC_CTYPE", *LOADER_NAMES) if name not in env),
        }
        loader = {name: os.environ[name] for name in LOADER_NAMES if name in os.environ}
        lock_fd = self._locks[stem.path]
        try:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", shim_start.__file__]
                + [f"{name}={value}" for name, value in words.items()]
                + ["--", *argv],
                loader | env | {"ORCHESTRATOR_STEM": stem.tag},
                setsid=True,
                setsigmask=(),
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, lock_fd, LOCK_FD),
                    (os.POSIX_SPAWN_OPEN, SLOT_FD, os.devnull, os.O_RDONLY, 0)
                    if slot is None
                    else (os.POSIX_SPAWN_DUP2, slot, SLOT_FD),
                ],
            )
        finally:
            self.unlock(stem)
        self._unreaped.add(pid)
        return pid

    def identity(self, stem: Stem) -> ShimRecord | None:
        """Who runs or ran under a stem, where those pids still mean something."""
        record = stem.read_shim()
        here = (self._host.boot_id, self._host.pid_namespace)
        if record is None or (record.boot_id, record.pid_namespace) != here:
            return None
        return record

    def outlives_its_shim(self, stem: Stem) -> bool:
        """Whether the child, or anything it started, lives although the shim does not."""
        if self.is_of_another_boot(stem):
            return False
        if self._child_of(stem) is not None:
            return True
        return waiting.eldest(stem.tag, self._group_of(stem)) is not None

    async def follow(
        self,
        stem: Stem,
        feed: Callable[[bytes], None],
        started: Callable[[ShimRecord], None],
        *,
        spawned: int | None,
        timeout_s: float,
    ) -> ExitRecord:
        """Feed the stream as it grows, until all is over and read.  Cancelled: detach.

        ``spawned``: the shim's pid, just given by spawn().  ``timeout_s`` holds from now where
        nothing was written about the deadline.
        """
        over: list[ExitRecord] = []
        told = False
        with self._watcher.watch(stem.stream, stem.shim) as changed, Tail(stem.stream) as tail:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end, stem, spawned, timeout_s, over, changed)
                while True:
                    is_last = bool(over)
                    if not told and (record := stem.read_shim()) is not None:
                        told = True
                        started(record)
                    await tail.feed(feed)
                    if is_last:
                        return over[0]
                    with trio.move_on_after(LOOK_AGAIN_S):
                        await changed.wait()

    async def stop(self, stem: Stem) -> int:
        """End everything under a stem.  Returns the survivors.  Bounded."""
        settings = self._settings()
        bound_s = settings.interrupt_wait_s + settings.terminate_wait_s + SHIM_SLACK_S
        if stem.is_locked() and (shim := await self._shim_of(stem)) is not None:
            waiting.signal_if_same(shim, signal.SIGTERM)
            with trio.move_on_after(bound_s):
                await waiting.wait_for_exit(shim)
            if waiting.is_alive(shim):
                waiting.signal_if_same(shim, signal.SIGKILL)
                await waiting.wait_for_exit(shim)
        if (record := stem.read_exit()) is not None and record.survivors == 0:
            return 0
        return (await self._sweep(stem, settings.interrupt_wait_s))[1]

    def ask_to_stop(self, stem: Stem) -> None:
        """Say stop to the shim without waiting for it."""
        if (record := self.identity(stem)) is not None and stem.is_locked():
            waiting.signal_if_same(record.shim, signal.SIGTERM)

    async def _end(
        self,
        stem: Stem,
        spawned: int | None,
        timeout_s: float,
        over: list[ExitRecord],
        changed: Changed,
    ) -> None:
        """Wait for the shim's end, or for that of what it left behind when it was killed."""
        shim: ProcessIdentity | None = None
        if spawned is not None:  # not collected yet, so the pid is still its own
            began = processes.start_time_of(spawned)
            shim = None if began is None else ProcessIdentity(pid=spawned, start_time=began)
        elif stem.is_locked():
            shim = await self._shim_of(stem)
        if shim is not None:
            with trio.move_on_after(self._shim_bound_s(stem, timeout_s)):
                await waiting.wait_for_exit(shim)
            if waiting.is_alive(shim):  # stuck: its own deadline and ladder are long past
                waiting.signal_if_same(shim, signal.SIGKILL)
                await waiting.wait_for_exit(shim)
            self._reap()
        record = stem.read_exit()
        over.append(await self._without_shim(stem, timeout_s) if record is None else record)
        changed.set()

    async def _without_shim(self, stem: Stem, timeout_s: float) -> ExitRecord:
        """The shim's work, as far as it can be done by somebody else."""
        record = self.identity(stem)
        started_at = time.time() if record is None else record.started_at
        ran_out = False
        if (child := self._child_of(stem)) is not None:
            self._shim_lost(stem)
            if record is not None:
                timeout_s = record.started_monotonic + record.deadline_s - time.monotonic()
            with trio.move_on_after(max(timeout_s, 0)):
                await waiting.wait_for_exit(child)
            ran_out = waiting.is_alive(child)
        interrupt_wait_s = self._settings().interrupt_wait_s if ran_out else 0.0
        ended, survivors = await self._sweep(stem, interrupt_wait_s)
        return ExitRecord(
            reason="deadline" if ran_out else "shim_lost",
            started_at=started_at,
            ended_at=time.time(),
            error="" if ran_out else "its shim was killed, or could not write the exit record",
            duration_s=max(time.time() - started_at, 0.0),
            descendants_ended=ended,
            survivors=survivors,
        )

    def _child_of(self, stem: Stem) -> ProcessIdentity | None:
        """The child, living.  Where its shim died before it wrote the name: the eldest tagged."""
        record = self.identity(stem)
        if record is not None:
            return record.child if waiting.is_alive(record.child) else None
        return waiting.eldest(stem.tag)

    def _group_of(self, stem: Stem) -> str:
        """The control group that the shim of this boot made, by the name that it gave it."""
        record = self.identity(stem)
        if record is None:
            return ""
        own = cgroup.name_of((record.shim.pid, record.shim.start_time))
        return record.cgroup if os.path.basename(record.cgroup) == own else ""

    async def _sweep(self, stem: Stem, interrupt_wait_s: float) -> tuple[int, int]:
        if self.is_of_another_boot(stem):
            return 0, 0
        return await waiting.end_family(
            self._child_of(stem),
            stem.tag,
            self._group_of(stem),
            interrupt_wait_s=interrupt_wait_s,
            terminate_wait_s=self._settings().terminate_wait_s,
        )

    def is_of_another_boot(self, stem: Stem) -> bool:
        written = stem.read_shim()
        return written is not None and written.boot_id != self._host.boot_id

    async def _shim_of(self, stem: Stem) -> ProcessIdentity | None:
        """Who holds the lock.  None: nobody any more, or it is stuck before it said so."""
        with self._watcher.watch(stem.shim) as changed, trio.move_on_after(IDENTITY_WAIT_S):
            while True:
                if (record := self.identity(stem)) is not None:
                    return record.shim
                if not stem.is_locked():
                    return None
                with trio.move_on_after(waiting.POLL_S):
                    await changed.wait()
        return None

    def _shim_bound_s(self, stem: Stem, timeout_s: float) -> float:
        record = self.identity(stem)
        if record is not None:
            end = record.started_monotonic + record.deadline_s
            timeout_s = max(end - time.monotonic(), 0)
        settings = self._settings()
        return timeout_s + settings.interrupt_wait_s + settings.terminate_wait_s + SHIM_SLACK_S

    def _reap(self) -> None:
        """Collect what has ended of the shims that we spawned; others' are not ours to collect."""
        for pid in list(self._unreaped):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                gone = True
            if gone:
                self._unreaped.discard(pid)
