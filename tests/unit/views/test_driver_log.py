"""What the driver's log says of the driver, whatever is in it."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from drivers.headless.heartbeat import (
    DriverExit,
    DriverRecord,
    DriverState,
    Pulse,
    heartbeat,
    started,
)
from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.settings import Settings
from orchestrator.journal.codec import timestamp
from orchestrator.views.driver_log import BLOCK_BYTES, DriverStatus, read_driver
from tests.unit.journal.events import HOST, NOW


def start(host: HostIdentity = HOST, *, at: float = NOW, start_time: int = 42) -> DriverRecord:
    return started(
        run_id="r1", now=at, host=host, argv=("x",), settings=Settings(), start_time=start_time
    )


def beat(*, at: float = NOW + 10, tick: int = 1) -> DriverRecord:
    pulse = Pulse(
        state=DriverState.WAITING_ON_CAPACITY,
        dispatch_limit=0,
        limited_by="usage_window:five_hour",
        dispatchable=3,
        in_flight=("T1",),
        reason="the window is full",
        wait_until=NOW + 500,
    )
    return heartbeat(pulse, run_id="r1", tick=tick, now=at)


def ended() -> DriverRecord:
    return DriverExit(
        ts=timestamp(NOW + 20), run_id="r1", reason="stopped", in_flight=(), signal="SIGTERM"
    )


Read = Callable[..., DriverStatus]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(
        *records: DriverRecord | bytes,
        now: float = NOW + 30,
        here: HostIdentity = HOST,
        alive: bool = True,
    ) -> DriverStatus:
        path = tmp_path / "driver.jsonl"
        path.write_bytes(
            b"".join(r if isinstance(r, bytes) else msgspec.json.encode(r) + b"\n" for r in records)
        )
        asked: list[ProcessIdentity] = []

        def is_alive(process: ProcessIdentity, host: HostIdentity) -> bool:
            asked.append(process)
            return alive

        found = read_driver(path, now=now, here=here, is_alive=is_alive)
        assert all(process.start_time == 42 for process in asked)
        return found

    return read


def test_none(read: Read, tmp_path: Path) -> None:
    assert read().state == "none"
    assert read(b"garbage\n", beat()).state == "none"
    gone = read_driver(tmp_path / "nothing", now=NOW, here=HOST, is_alive=lambda p, h: True)
    assert gone == DriverStatus()


def test_live(read: Read) -> None:
    found = read(start(), beat())
    assert (found.state, found.alive, found.heartbeat_age_s) == ("live", True, 20.0)
    assert (found.last_state, found.waits_for) == ("waiting_on_capacity", "the window is full")
    assert (found.dispatch_limit, found.limited_by) == (0, "usage_window:five_hour")
    assert found.wait_remaining_s == 470.0
    assert not found.heartbeat_overdue
    assert read(start()).state == "live"


def test_live_and_not_heard_of_in_time(read: Read) -> None:
    found = read(start(), beat(), now=NOW + 71)
    assert (found.state, found.alive, found.heartbeat_overdue) == ("live", True, True)


def test_dead(read: Read) -> None:
    found = read(start(), beat(), alive=False)
    assert (found.state, found.alive, found.exit_reason) == ("dead", False, None)
    rebooted = msgspec.structs.replace(HOST, boot_id="another")
    assert read(start(), beat(), here=rebooted).state == "dead"


def test_exited(read: Read) -> None:
    found = read(start(), beat(), ended())
    assert (found.state, found.alive) == ("exited", False)
    assert (found.exit_reason, found.exit_signal) == ("stopped", "SIGTERM")


def test_foreign(read: Read) -> None:
    elsewhere = msgspec.structs.replace(HOST, hostname="elsewhere", machine_id="other")
    found = read(start(elsewhere), beat())
    assert (found.state, found.host, found.alive) == ("foreign", "elsewhere", True)
    assert not read(start(elsewhere), beat(), now=NOW + 1000).alive
    in_a_container = msgspec.structs.replace(HOST, pid_namespace="1")
    assert read(start(in_a_container), beat()).state == "foreign"


def test_only_the_last_start_counts(read: Read) -> None:
    assert read(start(), beat(), ended(), start()).state == "live"
    assert read(start(), beat(), ended(), start(), ended()).state == "exited"


def test_torn_and_strange_lines_are_passed_over(read: Read) -> None:
    torn = msgspec.json.encode(beat())[:40]
    found = read(
        start(), torn + b"\n", b"\0\xff\n", b'{"type":"driver_song","ts":1}\n', beat(), torn
    )
    assert (found.state, found.heartbeat_age_s) == ("live", 20.0)


def test_a_long_log_is_read_from_its_end(read: Read) -> None:
    night = [beat(at=NOW + n, tick=n) for n in range(2000)]
    assert len(b"".join(map(msgspec.json.encode, night))) > 3 * BLOCK_BYTES
    found = read(start(), ended(), start(), *night, now=NOW + 2000)
    assert (found.state, found.heartbeat_age_s) == ("live", 1.0)
    assert read(*night, start(), beat()).state == "live"


def test_a_start_across_a_border_of_blocks_is_found(read: Read) -> None:
    line = len(msgspec.json.encode(start())) + 1
    for before in range(1, line, 7):
        filler = b"x" * (BLOCK_BYTES - line + before - 1) + b"\n"
        found = read(beat(), start(), filler)
        assert (found.state, found.pid is not None) == ("live", True)
