"""driver.jsonl: its records, its torn end, and when it is written."""

import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from drivers.headless.heartbeat import (
    DriverLog,
    DriverState,
    Heart,
    Pulse,
    heartbeat,
    started,
)
from drivers.headless.pulse import pulse_of
from orchestrator.core.capacity import Capacity
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.events import KnownEvent
from orchestrator.core.plan import plan
from orchestrator.core.settings import Settings
from tests.unit.cli.runs import HOST, added, dispatched, run_of

IDLE = Pulse(
    state=DriverState.WAITING_ON_CHILDREN,
    dispatch_limit=3,
    limited_by="tasks",
    dispatchable=0,
    in_flight=("A", "B"),
)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Driver:
    """What a heart looks at: a pulse that a test changes, and a clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pulse = IDLE
        self.faults: list[OSError] = []
        self.log = DriverLog(path)
        self.heart = Heart(
            self.log,
            run_id="r1",
            look=lambda: self.pulse,
            now=lambda: 1000.0,
            on_fault=self.faults.append,
        )

    def start(self) -> None:
        self.heart.start(
            started(run_id="r1", now=1000.0, host=HOST, argv=("o", "run"), settings=Settings())
        )


def test_a_start_is_followed_by_a_beat_at_once(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    start, beat = records(driver.path)
    assert start["type"] == "driver_start"
    assert (start["pid"], start["ppid"], start["sid"]) == (
        os.getpid(),
        os.getppid(),
        os.getsid(0),
    )
    assert (start["boot_id"], start["argv"]) == ("b", ["o", "run"])
    assert start["settings"]["max_concurrent"] == 3
    assert beat == {
        "type": "driver_heartbeat",
        "v": 1,
        "ts": "1970-01-01T00:16:40.000000Z",
        "run_id": "r1",
        "tick": 1,
        "state": "waiting_on_children",
        "util": None,
        "dispatch_limit": 3,
        "limited_by": "tasks",
        "dispatchable": 0,
        "in_flight": ["A", "B"],
        "next_heartbeat_within_s": 60.0,
    }


def test_a_wait_says_why_and_how_long_it_still_is() -> None:
    pulse = Pulse(
        state=DriverState.WAITING_ON_COOLDOWN,
        dispatch_limit=0,
        limited_by="cooldown",
        dispatchable=2,
        in_flight=(),
        util=0.93,
        reason="usage limit",
        wait_until=1060.0,
    )
    beat = heartbeat(pulse, run_id="r1", tick=4, now=1000.0)
    assert (beat.reason, beat.wait_remaining_s, beat.util) == ("usage limit", 60.0, 0.93)
    late = heartbeat(pulse, run_id="r1", tick=5, now=1100.0)
    assert late.wait_remaining_s == 0.0


def test_a_line_that_a_kill_tore_is_left_alone_and_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "driver.jsonl"
    path.write_bytes(b'{"type":"driver_heartbeat","ti')
    driver = Driver(path)
    driver.start()
    torn, start, beat = path.read_bytes().splitlines()
    assert torn == b'{"type":"driver_heartbeat","ti'
    assert [json.loads(line)["type"] for line in (start, beat)] == [
        "driver_start",
        "driver_heartbeat",
    ]


def test_after_a_short_write_it_begins_on_a_new_line(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (driver.path.stat().st_size + 9, hard))
    try:
        driver.heart.stop("the disk is full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(driver.faults) == 1
    driver.heart.stop("done")
    *_, torn, end = driver.path.read_bytes().splitlines()
    assert len(torn) == 9
    assert json.loads(end)["reason"] == "done"


def test_only_a_change_of_state_is_worth_a_beat_of_its_own(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    driver.heart.changed()
    driver.pulse = Pulse(
        state=DriverState.WAITING_ON_CAPACITY,
        dispatch_limit=0,
        limited_by="usage_window:five_hour",
        dispatchable=1,
        in_flight=(),
    )
    driver.heart.changed()
    driver.heart.changed()
    assert [r.get("state") for r in records(driver.path)] == [
        None,
        "waiting_on_children",
        "waiting_on_capacity",
    ]


async def test_it_beats_by_itself_twice_within_what_it_promises(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    with trio.move_on_after(75):
        await driver.heart.run()
    assert [r.get("tick") for r in records(driver.path)] == [None, 1, 2, 3]


def test_the_end_is_written_with_its_signal(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    driver.heart.stop("interrupted", signal="SIGINT")
    end = records(driver.path)[-1]
    assert (end["type"], end["reason"], end["signal"]) == ("driver_exit", "interrupted", "SIGINT")
    assert end["in_flight"] == ["A", "B"]


def test_a_driver_that_cannot_write_its_start_does_not_begin(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.log.close()
    with pytest.raises(EnvironmentFault, match=r"driver\.jsonl"):
        driver.start()


def test_a_beat_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver.jsonl")
    driver.start()
    driver.log.close()
    driver.heart.stop("done")
    assert len(driver.faults) == 1


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ([dispatched("A", "interactive:claude")], "by hand: A"),
        ([dispatched("A", "interactive:claude"), dispatched("B")], None),
        ([dispatched("A")], None),
    ],
)
def test_a_driver_says_whom_it_waits_for(out: list[KnownEvent], reason: str | None) -> None:
    state = run_of(added("A"), added("B"), *out)
    capacity = Capacity(limit=1)
    due = plan(state, now=100.0, capacity=capacity)
    assert pulse_of(state, due, capacity, is_preparing=False).reason == reason
    assert pulse_of(state, due, capacity, is_preparing=True).reason is None
