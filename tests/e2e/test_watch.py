"""``watch`` in a pipe says that the driver has ended, why, and what goes on; then it returns."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from adapters.host.local import LocalHost
from drivers.headless.heartbeat import DriverExit, DriverLog, DriverState, Pulse, heartbeat, started
from orchestrator.core.events import RunFinalized, TaskFailed
from orchestrator.core.model import RunStatus, Stage, TaskId
from orchestrator.core.settings import Settings
from orchestrator.journal.codec import timestamp
from tests.e2e.cli_process import Home, make_home
from tests.e2e.steered import commit

DRIVE = " --run r1 run-headless --wait"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = make_home(tmp_path, tasks='[[task]]\nid = "#12"\ntitle = "First"\n')
    made.json("--run", "r1", "init-run")
    made.json("--run", "r1", "add-task", "--all")
    return made


def driver_was_here(home: Home, *, pid: int, reason: str = "", heard_s_ago: float = 1.0) -> None:
    """What a driver has left in its file; without a ``reason`` it may live, or was killed."""
    log = DriverLog(home.store("r1") / "driver.jsonl")
    at = time.time() - heard_s_ago
    start = started(run_id="r1", now=at, host=LocalHost().identity(), argv=(), settings=Settings())
    pulse = Pulse(
        state=DriverState.DISPATCHING, dispatch_limit=3, limited_by="tasks", dispatchable=0,
        in_flight=(),
    )  # fmt: skip
    log.append(
        msgspec.structs.replace(start, pid=pid),
        heartbeat(pulse, run_id="r1", tick=1, now=at),
    )
    if reason:
        log.append(DriverExit(ts=timestamp(at), run_id="r1", reason=reason, in_flight=()))
    log.close()


def gone() -> int:
    """The pid of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def finished(home: Home, status: RunStatus) -> None:
    failed = TaskFailed(task_id=TaskId("#12"), stage=Stage.INTAKE, reason="it broke")
    commit(home.store("r1"), failed, RunFinalized(state=status))


def test_a_driver_that_has_ended_is_said_with_its_reason_and_what_goes_on(home: Home) -> None:
    driver_was_here(home, pid=gone(), reason="cooldown: come back later")
    done = home.call("--run", "r1", "watch")
    assert done.returncode == 3
    *_, told, next_, why, command = done.stdout.splitlines()
    assert told.endswith(" ended: cooldown: come back later")
    assert next_ == "next:"
    assert "the driver has ended" in why
    assert command.endswith(DRIVE)


def test_a_driver_that_was_killed_is_said_to_be_dead(home: Home) -> None:
    driver_was_here(home, pid=gone())
    done = home.call("--run", "r1", "watch")
    assert done.returncode == 3
    assert "is dead, without a word; heard 1 s ago" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(DRIVE)


def test_a_pause_says_how_to_unpause(home: Home) -> None:
    home.json("--run", "r1", "pause", "--reason", "lunch")
    driver_was_here(home, pid=gone(), reason="paused: lunch; go on: orchestrator --run r1 unpause")
    done = home.call("--run", "r1", "watch")
    assert done.returncode == 3
    commands = [line for line in done.stdout.splitlines() if line.startswith("    ")]
    assert [command.endswith(e) for command, e in zip(commands, (" unpause", DRIVE), strict=True)]


def test_its_exit_status_is_the_runs(home: Home) -> None:
    finished(home, RunStatus.FAILED)
    assert home.call("--run", "r1", "watch").returncode == 6
    driver_was_here(home, pid=gone(), reason="failed")
    done = home.call("--run", "r1", "watch")
    assert done.returncode == 6
    assert done.stdout.splitlines()[-1].endswith(" ended: failed")


def test_the_last_frame_knows_the_drivers_end(home: Home) -> None:
    finished(home, RunStatus.FAILED)
    driver_was_here(home, pid=gone(), reason="failed")
    *_, last = home.call("--run", "r1", "watch", "--json").stdout.splitlines()
    assert json.loads(last)["driver"]["exit_reason"] == "failed"


def test_while_nobody_has_driven_it_that_is_said_and_waited(home: Home) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--run", "r1", "watch"],
        cwd=home.repository,
        env=home.environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            assert watching.stdout is not None
            for line in watching.stdout:
                if "run-headless" in line:
                    break
            driver_was_here(home, pid=os.getpid(), heard_s_ago=300)
            assert "OVERDUE" in next(watching.stdout)
            finished(home, RunStatus.FAILED)
            rest = watching.stdout.read()
        finally:
            watching.kill()
    assert "the run has ended: failed" in rest
    assert watching.wait() in (6, -9)
