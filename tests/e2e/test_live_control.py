"""A run is changed under a live driver, by commands in another terminal, and changed back."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli_process import Home, lines, make_home

pytestmark = pytest.mark.slow

RUN = "r1"
WITHIN_S = 60.0
TASKS = "".join(f'[[task]]\nid = "T{n}"\ntitle = "Do T{n}"\n' for n in (1, 2, 3))
SCENARIO = "schema = 1\nduration_s = 0.5\n"


def until(what: str, is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def of_type(home: Home, name: str, task: str | None = None) -> list[dict[str, Any]]:
    return [
        event
        for event in home.events(RUN)
        if event["type"] == name and task in (None, event.get("task_id"))
    ]


def last_beat(home: Home) -> dict[str, Any]:
    beats = [
        each
        for each in lines(home.store(RUN) / "driver.jsonl")
        if each["type"] == "driver_heartbeat"
    ]
    return beats[-1]


def test_a_run_is_changed_while_it_runs_and_changed_back(tmp_path: Path) -> None:
    home = make_home(tmp_path, tasks=TASKS, scenario=SCENARIO)
    home.json("--run", RUN, "init-run", "--lane", "micro", "--max-concurrent", "1")
    home.json("--run", RUN, "add-task", "--all")
    driver = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "--run", RUN, "run-headless", "--wait"],
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        until("the first task begins", lambda: of_type(home, "stage_dispatched", "T1"))
        paused = home.json("--run", RUN, "pause", "--task", "T3", "--reason", "not yet")
        assert paused["paused_tasks"] == ["T3"]
        home.json("--run", RUN, "set", "--task", "T3", "priority", "5")
        home.json("--run", RUN, "set", "models.review", "opus", "--reason", "a closer look")

        until("only T3 is left", lambda: last_beat(home)["state"] == "waiting_on_capacity")
        beat = last_beat(home)
        assert (beat["limited_by"], beat["in_flight"]) == ("paused_tasks", [])
        assert beat["reason"] == (
            "paused: T3 (not yet); go on: orchestrator --run r1 unpause --task T3"
        )
        assert driver.poll() is None
        status = home.json("--run", RUN, "status")
        row = status["tasks"][2]
        assert (row["state"], row["paused"], row["priority"]) == ("ready", "not yet", 5)
        assert status["driver"]["waits_for"] == beat["reason"]
        could = home.json("--run", RUN, "dispatchable")
        assert (could["dispatchable"], could["limited_by"]) == ([], "paused_tasks")

        (given_back,) = home.json("--run", RUN, "set", "--undo")
        assert (given_back["key"], given_back["was"], given_back["now"]) == (
            "models.review",
            "opus",
            None,
        )
        home.json("--run", RUN, "unpause", "--task", "T3", "--reason", "now")
        out, _ = driver.communicate(timeout=WITHIN_S)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 0, out
    assert json.loads(out)["run_state"] == "completed"

    pause, priority, unpause = of_type(home, "task_changed", "T3")
    assert (pause["changes"], pause["by"], pause["reason"]) == (
        {"paused": "not yet"},
        "someone",
        "not yet",
    )
    assert priority["changes"] == {"priority": 5}
    assert (unpause["changes"], unpause["reason"]) == ({"paused": None}, "now")
    dispatches = of_type(home, "stage_dispatched")
    assert not [
        each
        for each in dispatches
        if each["task_id"] == "T3" and pause["seq"] < each["seq"] < unpause["seq"]
    ]
    changed, undone = of_type(home, "settings_changed")
    assert undone["undoes"] == [changed["seq"]]
    assert {
        each["model"]
        for each in dispatches
        if each["stage"] == "review" and changed["seq"] < each["seq"] < undone["seq"]
    } == {"opus"}
    assert [
        each["model"]
        for each in dispatches
        if each["stage"] == "review" and each["seq"] > undone["seq"]
    ] == ["sonnet"]
    history = home.call("--run", RUN, "set", "--history", "--text").stdout
    assert "someone  models.review: none -> opus (a closer look); taken back by" in history
    assert home.json("--run", RUN, "audit")["clean"]
