"""Whether a run has a live driver, and what it last said: ``driver.jsonl`` since its last start.

Invariant: whatever is in the file, the answer is one of five states; a line that cannot
be read is passed over.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from orchestrator.core.model import HostIdentity, ProcessIdentity, RunStatus
from orchestrator.core.recover import is_same_host
from orchestrator.core.words import in_words
from orchestrator.given_file import open_file

BLOCK_BYTES = 1 << 16

State = Literal["none", "live", "dead", "exited", "foreign"]

IsAlive = Callable[[ProcessIdentity, HostIdentity], bool]
"""Whether this very process runs on the host; a pid that a later process has got is not it."""

BY_HAND = "by hand: "
"""How a heartbeat's reason begins where only people's hands are waited for."""

START_TIME_UNKNOWN = 0
"""What IsAlive is asked with where the driver did not say when it was started."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Any record of the file, as far as it is read here."""

    type: Literal["driver_start", "driver_heartbeat", "driver_exit"]
    ts: datetime
    pid: int = 0
    start_time: int = START_TIME_UNKNOWN
    host: HostIdentity | None = None
    state: str | None = None
    dispatch_limit: int | None = None
    limited_by: str | None = None
    next_heartbeat_within_s: float | None = None
    wait_remaining_s: float | None = None
    reason: str | None = None
    signal: str | None = None


class DriverStatus(msgspec.Struct, frozen=True, kw_only=True):
    state: State = "none"
    """``foreign``: of another host, where its pid means nothing here."""
    alive: bool = False
    """Of a foreign driver: its heartbeat is not overdue."""
    pid: int | None = None
    host: str | None = None
    heartbeat_age_s: float | None = None
    heartbeat_overdue: bool = False
    """Older than it promised: the driver hangs, or the machine slept."""
    last_state: str | None = None
    waits_for: str | None = None
    wait_remaining_s: float | None = None
    exit_reason: str | None = None
    exit_signal: str | None = None
    dispatch_limit: int | None = None
    limited_by: str | None = None


def read_driver(path: Path, *, now: float, here: HostIdentity, is_alive: IsAlive) -> DriverStatus:
    return driver_status(list(since_last_start(path)), now=now, here=here, is_alive=is_alive)


def driver_status(
    lines: list[Line], *, now: float, here: HostIdentity, is_alive: IsAlive
) -> DriverStatus:
    """``lines``: since the last start, that one included."""
    if not lines:
        return DriverStatus()
    start, *later = lines
    beat = next((line for line in reversed(later) if line.type == "driver_heartbeat"), None)
    ended = next((line for line in reversed(later) if line.type == "driver_exit"), None)
    age_s = max(0.0, now - (beat or start).ts.timestamp())
    promised_s = beat.next_heartbeat_within_s if beat else None
    is_overdue = ended is None and promised_s is not None and age_s > promised_s
    state: State = "exited" if ended is not None else _state_of(start, here, is_alive)
    wait_s = beat.wait_remaining_s if beat else None
    return DriverStatus(
        state=state,
        alive=state == "live" or (state == "foreign" and not is_overdue),
        pid=start.pid or None,
        host=start.host.hostname if start.host else None,
        heartbeat_age_s=round(age_s, 1),
        heartbeat_overdue=is_overdue,
        last_state=beat.state if beat else None,
        waits_for=beat.reason if beat else None,
        wait_remaining_s=None if wait_s is None else round(max(0.0, wait_s - age_s), 1),
        exit_reason=ended.reason if ended else None,
        exit_signal=ended.signal if ended else None,
        dispatch_limit=beat.dispatch_limit if beat else None,
        limited_by=beat.limited_by if beat else None,
    )


def without_commands(reason: str) -> str:
    """Why a driver ended or a run is paused, without what was advised then: that is past once it
    has been done, and named beside it until then."""
    return in_words(reason) if reason in set(RunStatus) else _ADVISED.sub("", reason)


_ADVISED = re.compile(r"(?:; |, )(?:go on|then|raise it[^:;]*): orchestrator [^;]*")


def since_last_start(path: Path) -> Iterator[Line]:
    """The records since the last start; nothing where there is no file or no start."""
    try:
        data = _from_last(path, b'"driver_start"')
    except FileNotFoundError:
        return
    for raw in data.split(b"\n"):
        try:
            yield _decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue


_decode = msgspec.json.Decoder(Line).decode


def _state_of(start: Line, here: HostIdentity, is_alive: IsAlive) -> State:
    host = start.host
    if host is None:
        return "dead"
    if not is_same_host(host, here):
        return "foreign"
    if host.boot_id != here.boot_id:
        return "dead"
    if host.pid_namespace != here.pid_namespace:
        return "foreign"
    process = ProcessIdentity(pid=start.pid, start_time=start.start_time)
    return "live" if is_alive(process, host) else "dead"


def _from_last(path: Path, word: bytes) -> bytes:
    """The file from the last line with ``word`` on, read from its end."""
    with open(open_file(path), "rb") as file:
        at = file.seek(0, os.SEEK_END)
        data = b""
        while at > 0:
            step = min(at, BLOCK_BYTES)
            at = file.seek(at - step)
            data = file.read(step) + data
            found = data.rfind(word)
            begins = data.rfind(b"\n", 0, max(found, 0))
            if found >= 0 and (begins >= 0 or at == 0):
                return data[begins + 1 :]
    return b""
