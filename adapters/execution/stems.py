"""The files of a dispatch, which share a stem: names, the lock, and the shim's two records.

    stages/<task>/<stage>-attempt<N>[.d<K>]  +  .prompt.txt .work.json .lock .shim.json
                                                .stream.jsonl .stderr.log .exit.json

A second start within the same dispatch has the stem ``….s2`` and shares the prompt.

Invariant: the lock is free only where no shim lives.  The driver locks it, hands it to the shim
and lets go of its own descriptor; the kernel frees it with the shim's last one.
"""

import contextlib
import errno
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.model import ChildExit, ProcessIdentity, Record
from orchestrator.given_file import open_file, read_file

RECORD_BYTES_MAX = 1 << 20
LOCK_TRIES = 20
LOCK_PAUSE_S = 0.005


T = TypeVar("T", bound=Record)


class ShimRecord(Record, frozen=True, kw_only=True):
    """``<stem>.shim.json``: who runs, and until when."""

    shim: ProcessIdentity
    child: ProcessIdentity
    started_at: float
    started_monotonic: float
    deadline_s: float
    boot_id: str
    pid_namespace: str = ""
    cgroup: str = ""
    """The path of the child's control group, where one could be made."""


class ExitRecord(Record, frozen=True, kw_only=True):
    """``<stem>.exit.json``: how it ended."""

    reason: str
    started_at: float
    ended_at: float
    code: int | None = None
    signal: int | None = None
    error: str = ""
    errno: int = 0
    duration_s: float = 0.0
    descendants_ended: int = 0
    survivors: int = 0
    max_rss_kb: int = 0
    """Of the largest single process."""
    cpu_s: float = 0.0

    @property
    def child_exit(self) -> ChildExit:
        return ChildExit(
            code=self.code,
            signal=self.signal,
            reason=self.reason,
            error=self.error,
            duration_s=self.duration_s,
            descendants_ended=self.descendants_ended,
            survivors=self.survivors,
            peak_memory_bytes=self.max_rss_kb * 1024,
        )


@dataclass(frozen=True)
class Stem:
    """One start of a dispatch.  ``dispatch`` is the stem that the prompt is kept under."""

    path: str
    dispatch: str

    @classmethod
    def first(cls, path: Path) -> "Stem":
        absolute = os.path.realpath(path.parent) + "/" + path.name
        return cls(absolute, absolute)

    @property
    def second(self) -> "Stem":
        return Stem(self.dispatch + ".s2", self.dispatch)

    @property
    def is_second(self) -> bool:
        return self.path != self.dispatch

    @property
    def directory(self) -> Path:
        return Path(self.path).parent

    @property
    def prompt(self) -> Path:
        return Path(self.dispatch + ".prompt.txt")

    @property
    def work(self) -> Path:
        return Path(self.dispatch + ".work.json")

    @property
    def lock(self) -> Path:
        return Path(self.path + ".lock")

    @property
    def shim(self) -> Path:
        return Path(self.path + ".shim.json")

    @property
    def stream(self) -> Path:
        return Path(self.path + ".stream.jsonl")

    @property
    def stderr(self) -> Path:
        return Path(self.path + ".stderr.log")

    @property
    def exit(self) -> Path:
        return Path(self.path + ".exit.json")

    @property
    def stall(self) -> Path:
        return Path(self.path + ".stall.json")

    @property
    def tag(self) -> str:
        """What its processes carry in their environment as ORCHESTRATOR_STEM."""
        return self.path

    def was_started(self) -> bool:
        return self.shim.exists() or self.stream.exists() or self.exit.exists()

    def is_locked(self) -> bool:
        """Whether its shim lives.  The look itself is a shared lock, held for an instant."""
        try:
            fd = open_file(self.lock)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def take_lock(self) -> int:
        """A descriptor that holds the lock, out of the way of the three standard ones.

        Raises BlockingIOError where a shim lives, EnvironmentFault where locks do not work.
        """
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            for tries_left in range(LOCK_TRIES, -1, -1):
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # a shim, or the instant of somebody's look
                    if tries_left == 0:
                        raise
                    time.sleep(LOCK_PAUSE_S)
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        except OSError as fault:
            if fault.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise EnvironmentFault(
                    f"cannot lock {self.lock}: {os.strerror(fault.errno)}; "
                    "put the runs' directory on a local disk"
                ) from fault
            raise
        finally:
            os.close(fd)

    def read_shim(self) -> ShimRecord | None:
        return _read(self.shim, ShimRecord)

    def read_exit(self) -> ExitRecord | None:
        return _read(self.exit, ExitRecord)

    def read_stall(self, kind: type[T]) -> T | None:
        """Why a driver stopped the child because it hung; see guard.py."""
        return _read(self.stall, kind)

    def write_stall(self, stall: Record) -> None:
        temporary = Path(f"{self.stall}.tmp")
        temporary.write_bytes(msgspec.json.encode(stall) + b"\n")
        temporary.replace(self.stall)

    def stderr_bytes(self) -> int:
        with contextlib.suppress(OSError):
            return self.stderr.stat().st_size
        return 0

    def stderr_tail(self, bytes_max: int = 8192) -> str:
        with contextlib.suppress(OSError), open(open_file(self.stderr), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - bytes_max))
            return file.read(bytes_max).decode("utf-8", "replace")
        return ""


def latest_start(first: Stem) -> Stem:
    """The start of a dispatch that counts: the second, where there was one."""
    second = first.second
    return second if second.is_locked() or second.was_started() else first


def _read(path: Path, kind: type[T]) -> T | None:
    """None: not there.  What is there was renamed into place whole; damage counts as absence."""
    try:
        return msgspec.json.decode(read_file(path, RECORD_BYTES_MAX), type=kind)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
