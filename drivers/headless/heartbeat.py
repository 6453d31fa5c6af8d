"""The driver's pulse: ``driver.jsonl``, from which others tell whether it lives and what it awaits.

While the driver lives, its last record is never older than that record promised.  A record is
one line; a start is never glued to a line that a kill -9 tore.
"""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec import UNSET, UnsetType

from orchestrator.core.errors import EnvironmentFault, in_full
from orchestrator.core.model import HostIdentity, Record
from orchestrator.core.options import described
from orchestrator.core.settings import Settings
from orchestrator.journal.codec import timestamp

HEARTBEAT_S = 30.0
PROMISE_S = 2 * HEARTBEAT_S
"""A watchdog's rule: beat at half of what is promised, so that one late beat alarms nobody."""


class DriverState(StrEnum):
    DISPATCHING = "dispatching"
    WAITING_ON_CHILDREN = "waiting_on_children"
    WAITING_ON_CAPACITY = "waiting_on_capacity"
    WAITING_ON_COOLDOWN = "waiting_on_cooldown"


class Pulse(Record, frozen=True, kw_only=True):
    """What the run loop is doing, at one moment."""

    state: DriverState
    dispatch_limit: int
    limited_by: str
    dispatchable: int
    """Tasks that could start now."""
    in_flight: tuple[str, ...]
    """Tasks that a dispatch is out for."""
    util: float | None = None
    """The fullest usage window's share, 0 to 1; None while no stream has told."""
    reason: str | None = None
    wait_until: float | None = None
    """Epoch seconds, where time alone ends the wait."""

    def differs(self, other: "Pulse") -> bool:
        """Worth a beat of its own; how many run is read from the journal."""
        return (self.state, self.dispatch_limit, self.limited_by, self.reason) != (
            other.state,
            other.dispatch_limit,
            other.limited_by,
            other.reason,
        )


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    v: int = 1
    ts: str
    run_id: str


class DriverStart(_Line, frozen=True, kw_only=True, tag="driver_start"):
    pid: int
    start_time: int
    """Tells this process from a later one with its pid; 0 where it is not known."""
    ppid: int
    pgid: int
    sid: int
    host: HostIdentity
    boot_id: str
    argv: tuple[str, ...]
    settings: dict[str, Any]


class DriverHeartbeat(_Line, frozen=True, kw_only=True, tag="driver_heartbeat"):
    tick: int
    state: DriverState
    util: float | None
    dispatch_limit: int
    limited_by: str
    dispatchable: int
    in_flight: tuple[str, ...]
    next_heartbeat_within_s: float
    reason: str | UnsetType = UNSET
    wait_remaining_s: float | UnsetType = UNSET


class DriverExit(_Line, frozen=True, kw_only=True, tag="driver_exit"):
    reason: str
    in_flight: tuple[str, ...]
    signal: str | UnsetType = UNSET
    """Its name: ``SIGTERM``."""


DriverRecord = DriverStart | DriverHeartbeat | DriverExit


def started(
    *,
    run_id: str,
    now: float,
    host: HostIdentity,
    argv: tuple[str, ...],
    settings: Settings,
    start_time: int = 0,
) -> DriverStart:
    return DriverStart(
        ts=timestamp(now),
        run_id=run_id,
        pid=os.getpid(),
        start_time=start_time,
        ppid=os.getppid(),
        pgid=os.getpgid(0),
        sid=os.getsid(0),
        host=host,
        boot_id=host.boot_id,
        argv=argv,
        settings=described(settings),
    )


def heartbeat(pulse: Pulse, *, run_id: str, tick: int, now: float) -> DriverHeartbeat:
    until = pulse.wait_until
    return DriverHeartbeat(
        ts=timestamp(now),
        run_id=run_id,
        tick=tick,
        state=pulse.state,
        util=pulse.util,
        dispatch_limit=pulse.dispatch_limit,
        limited_by=pulse.limited_by,
        dispatchable=pulse.dispatchable,
        in_flight=pulse.in_flight,
        next_heartbeat_within_s=PROMISE_S,
        reason=pulse.reason or UNSET,
        wait_remaining_s=UNSET if until is None else max(0.0, round(until - now, 1)),
    )


class DriverLog:
    """The file.  Appends whole lines; after a torn one it begins on a new line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise EnvironmentFault(in_full(error, f"cannot write {path}")) from error
        self._torn = self._ends_torn()

    def append(self, *records: DriverRecord, sync: bool = False) -> None:
        """Raises OSError; the next append then begins on a new line."""
        data = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        if self._torn:
            data = b"\n" + data
        self._torn = True
        written = os.write(self._fd, data)
        if written < len(data):
            raise OSError(f"{self.path}: the disk took {written} of {len(data)} bytes")
        self._torn = False
        if sync:
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _ends_torn(self) -> bool:
        size = os.fstat(self._fd).st_size
        return size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"


class Heart:
    """Beats every 30 s, and whenever the run loop says that something may have changed."""

    def __init__(
        self,
        log: DriverLog,
        *,
        run_id: str,
        look: Callable[[], Pulse],
        now: Callable[[], float],
        on_fault: Callable[[OSError], None],
    ) -> None:
        """``on_fault`` is told when a beat cannot be written; the driver goes on without."""
        self._log = log
        self._run_id = run_id
        self._look = look
        self._now = now
        self._on_fault = on_fault
        self._tick = 0
        self._last: Pulse | None = None

    def start(self, record: DriverStart) -> None:
        """Make the start and the first beat durable.  Raises EnvironmentFault where it cannot."""
        try:
            self._log.append(record, self._next(self._look()), sync=True)
        except OSError as error:
            raise EnvironmentFault(in_full(error, f"cannot write {self._log.path}")) from error

    def changed(self) -> None:
        """Beat if what the loop does, or waits for, is not what the last beat said."""
        pulse = self._look()
        if self._last is None or pulse.differs(self._last):
            self._beat(pulse)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await trio.sleep(HEARTBEAT_S)
            self._beat(self._look())

    def stop(self, reason: str, *, signal: str | None = None) -> None:
        """Write the last record.  Its absence would mean an uncatchable kill."""
        pulse = self._look()
        record = DriverExit(
            ts=timestamp(self._now()),
            run_id=self._run_id,
            reason=reason,
            in_flight=pulse.in_flight,
            signal=signal or UNSET,
        )
        self._append(record, sync=True)

    def _beat(self, pulse: Pulse) -> None:
        self._append(self._next(pulse))

    def _next(self, pulse: Pulse) -> DriverHeartbeat:
        self._tick += 1
        self._last = pulse
        return heartbeat(pulse, run_id=self._run_id, tick=self._tick, now=self._now())

    def _append(self, record: DriverRecord, *, sync: bool = False) -> None:
        try:
            self._log.append(record, sync=sync)
        except OSError as error:
            self._on_fault(error)
