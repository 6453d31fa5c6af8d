"""A run learns from the one before it, says what it expects, and is held to it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drivers.cli.schema import all_schemas
from tests.e2e.cli_process import Home, make_home

pytestmark = pytest.mark.slow

QUICK = "schema = 1\nduration_s = 0\n"
TASKS = """
[[task]]
id = "A"
title = "First"
body = "Do the first thing."

[[task]]
id = "B"
title = "Second"
depends_on = ["A"]
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Two runs of a project, driven to their ends one after the other."""
    home = make_home(tmp_path_factory.mktemp("home"), tasks=TASKS, scenario=QUICK)
    for run in ("r1", "r2"):
        home.json("--run", run, "init-run", "--lane", "micro", "--budget-usd", "50")
        home.json("--run", run, "add-task", "--all")
        done = home.orchestrator("--run", run, "run-headless", "--wait")
        assert done.returncode == 0, done.stderr
    return home


def of_type(home: Home, run: str, kind: str) -> list[dict[str, Any]]:
    return [event for event in home.events(run) if event["type"] == kind]


def test_the_second_run_knows_what_the_first_took(home: Home) -> None:
    assert of_type(home, "r1", "history_loaded") == []
    (loaded,) = of_type(home, "r2", "history_loaded")
    assert loaded["runs"] == 1
    assert {sample["task"] for sample in loaded["samples"]} == {"r1/A", "r1/B"}
    kept = json.loads((home.store("r2") / "history.json").read_text())
    assert kept["run_id"] == "r2"
    assert {sample["task"] for sample in kept["samples"]} == {"A", "B"}


def test_a_forecast_is_made_before_anything_starts_and_said(home: Home) -> None:
    for run in ("r1", "r2"):
        kinds = [event["type"] for event in home.events(run)]
        assert kinds.count("forecast_made") == 1
        assert kinds.index("forecast_made") < kinds.index("stage_dispatched")
        assert "forecast" in (home.store(run) / "driver.log").read_text()
        assert home.json("--run", run, "status")["forecast"]["futures"] >= 8


def test_a_run_that_has_ended_is_scored(home: Home) -> None:
    text = home.call("--run", "r2", "forecast", "--text").stdout
    assert "has ended (completed)" in text
    assert "foreseen" in text
    assert home.json("--run", "r2", "forecast")["score"]["said"]["futures"] >= 8


def test_a_retrospective_adds_up(home: Home) -> None:
    seen = home.json("--run", "r2", "retrospective")
    status = home.json("--run", "r2", "status")
    assert seen["money"]["total_usd"] == pytest.approx(status["cost"]["total_usd"])
    assert sum(row["dispatches"] for row in seen["stages"]) == status["events_audit"]["recorded"]
    assert [row["task_id"] for row in seen["critical_path"]] == ["A", "B"]
    assert seen["failed"] == []
    text = home.call("--run", "r2", "retrospective", "--text").stdout
    assert "critical path" in text


def test_a_run_that_has_not_begun_is_foreseen_by_what_others_took(home: Home) -> None:
    home.json("--run", "r3", "init-run", "--lane", "micro", "--budget-usd", "50")
    home.json("--run", "r3", "add-task", "--all")
    before = home.events("r3")
    seen = home.json("--run", "r3", "forecast", "--samples", "20")
    assert seen["futures"] == 20
    assert seen["basis"]["attempts"] > 0
    assert [change["change"] for change in seen["what_if"]] == ["slot", "budget"]
    assert home.events("r3") == before
    text = home.call("--run", "r3", "forecast", "--samples", "20", "--text").stdout
    assert "rests on" in text


def test_what_is_printed_fits_its_schema(home: Home, tmp_path: Path) -> None:
    del tmp_path
    for verb in ("forecast", "retrospective"):
        printed = home.json("--run", "r2", verb)
        assert set(printed) == set(all_schemas()[verb]["$defs"][verb.capitalize()]["properties"])
        assert msgspec.json.encode(printed)
