"""Two runs on one host, driven at once and killed: never more children than the host may have."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from adapters.host.slots import Slots
from tests.e2e.cli_process import Home, make_home

pytestmark = pytest.mark.slow

PLACES = 2
RUNS = ("r1", "r2")
TASKS = "".join(f'[[task]]\nid = "{name}"\ntitle = "{name}"\n' for name in "ABC")
SCENARIO = "schema = 1\nduration_s = 0.4\n"
WITHIN_S = 120.0


def start(home: Home, run: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--run", run, "run-headless", "--wait"],
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stems(home: Home) -> set[str]:
    """Of the shims that live at one instant: those that were seen and are still there after."""
    seen = [(process, stem) for process in psutil.process_iter() if (stem := stem_of(process))]
    return {stem for process, stem in seen if home.path.name in stem and stem_of(process)}


def stem_of(process: psutil.Process) -> str:
    """ "" for what is no shim.  One that ends has no words any more while it still has its place;
    a child that is only just forked has its shim's."""
    try:
        return next((word for word in process.cmdline() if word.startswith("stem=")), "")
    except psutil.Error:
        return ""


def test_two_drivers_killed_again_and_again_share_the_places_of_the_host(tmp_path: Path) -> None:
    home = make_home(tmp_path, tasks=TASKS, scenario=SCENARIO)
    for run in RUNS:
        home.json("--run", run, "init-run", "--lane", "micro", "--max-concurrent", "3")
        home.json("--run", run, "add-task", "--all")
        home.json("--run", run, "set", "host_children_max", str(PLACES))
    drivers = {run: start(home, run) for run in RUNS}
    most, kills_left, limited = 0, 3, set()
    give_up_at = time.monotonic() + WITHIN_S
    try:
        while any(driver.poll() is None for driver in drivers.values()):
            assert time.monotonic() < give_up_at
            alive = stems(home)
            most = max(most, len(alive))
            assert most <= PLACES
            for run, driver in drivers.items():
                if (
                    kills_left
                    and driver.poll() is None
                    and any(f"/{run}/" in stem for stem in alive)
                ):
                    driver.kill()
                    driver.wait()
                    kills_left -= 1
                    drivers[run] = start(home, run)
                    break
            limited |= {home.json("--run", run, "dispatchable")["limited_by"] for run in RUNS}
    finally:
        for driver in drivers.values():
            driver.kill()
            driver.wait()
    assert [driver.returncode for driver in drivers.values()] == [0, 0]
    assert (most, kills_left) == (PLACES, 0)
    assert "host_children" in limited
    for run in RUNS:
        status = home.json("--run", run, "status")
        assert (status["run_state"], status["events_audit"]["clean"]) == ("completed", True)
        assert status["events_audit"]["attempts_spent"] == 0
        beats = (home.store(run) / "driver.jsonl").read_text()
        assert '"limited_by":"host_children"' in beats
    (places,) = (home.path / "home/.local/state/orchestrator/host/slots").iterdir()
    assert Slots(places).free(PLACES) == PLACES
    assert sorted(path.name for path in places.iterdir()) == ["00.lock", "01.lock"]
