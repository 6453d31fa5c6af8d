"""kill -9 of the driver over four running stages, and the same command again: nothing runs twice,
nothing is lost, no attempt is spent, and never are more than four at work."""

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.e2e.cli_process import Home, make_home
from tests.e2e.test_bad_output import WORDS, begin
from tests.e2e.test_cli_driver import until

pytestmark = pytest.mark.slow

TASKS = [f"T{number}" for number in range(6)]
TASK = "".join(f'[[task]]\nid = "{name}"\ntitle = "Do {name}"\n' for name in TASKS)
SCENARIO = """
schema = 1
[[call]]
stage = "implement"
duration_s = 4
say = "my work"
"""
AT_ONCE = 4


def children(home: Home) -> dict[str, psutil.Process]:
    """Of the implement stages: those that are at work."""
    found = {}
    for record in (home.store("r1") / "stages").glob("*/implement-*.shim.json"):
        pid = json.loads(record.read_text())["child"]["pid"]
        if not record.with_name(record.name.replace(".shim.", ".exit.")).exists():
            found[record.parent.name] = psutil.Process(pid)
    return found


def test_what_runs_is_taken_up_and_nothing_is_done_again(tmp_path: Path) -> None:
    home = make_home(tmp_path, tasks=TASK, scenario=SCENARIO)
    home.json("--run", "r1", "init-run", "--lane", "micro", "--max-concurrent", str(AT_ONCE))
    home.json("--run", "r1", "add-task", "--all")
    with begin(home, WORDS, stdout=subprocess.DEVNULL) as driver:
        until("four are at work", lambda: len(children(home)) == AT_ONCE)
        before = children(home)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert len(before) == AT_ONCE
    events = (home.store("r1") / "events.jsonl").read_bytes()

    done = home.orchestrator(*WORDS)
    assert done.returncode == 0, done.stderr
    journal = home.store("r1") / "events.jsonl"
    assert journal.read_bytes().startswith(events)
    told = home.events("r1")
    taken_up = {e["task_id"]: e["how"] for e in told if e["type"] == "dispatch_reclaimed"}
    # A slow machine may find one that has ended meanwhile: its result is collected then.
    assert {name.lower() for name in taken_up} == {name.lower() for name in before}
    assert set(taken_up.values()) <= {"adopted", "harvested"}
    dispatched = Counter(
        (e["task_id"], e["stage"]) for e in told if e["type"] == "stage_dispatched"
    )
    assert dispatched == {(name, stage): 1 for name in TASKS for stage in stages(told)}
    recorded = Counter((e["task_id"], e["stage"]) for e in told if e["type"] == "stage_recorded")
    assert recorded == dispatched
    starts = list((home.store("r1") / "stages").glob("*/*.shim.json"))
    assert len(starts) == dispatched.total(), "a child for each dispatch, and no other"
    assert most_at_once(told) == AT_ONCE
    status = home.json("--run", "r1", "status")
    assert (status["run_state"], status["events_audit"]["attempts_spent"]) == ("completed", 0)
    assert home.json("--run", "r1", "audit")["clean"]


def stages(told: list[dict[str, object]]) -> set[object]:
    return {event["stage"] for event in told if event["type"] == "stage_dispatched"}


def most_at_once(told: list[dict[str, object]]) -> int:
    out = most = 0
    for event in told:
        out += (event["type"] == "stage_dispatched") - (event["type"] == "stage_recorded")
        most = max(most, out)
    return most
