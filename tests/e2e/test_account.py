"""Two drivers on one host, one account: what one meets both wait out, and one asks first."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.cli_process import Home, make_home
from tests.e2e.failure_modes import QUICK

pytestmark = pytest.mark.slow

RUNS = ("one", "other")
DONE_WITHIN_S = 120.0
MODEL_STAGES = frozenset({"scope", "implement", "review"})
SCENARIO = """\
schema = 1
duration_s = 0.3

[account]
five_hour = 0.5
limit_at_call = 6
limit_s = 4.0
late_s = 1.5
"""


def epoch(ts: str) -> float:
    return datetime.fromisoformat(ts).timestamp()


class Call(NamedTuple):
    """A dispatch with a model, on the wall clock."""

    run: str
    began: float
    ended: float
    cause: str | None


class Night(NamedTuple):
    home: Home
    statuses: dict[str, int]
    events: dict[str, list[dict[str, Any]]]
    said: dict[str, str]

    def of(self, kind: str, run: str) -> list[dict[str, Any]]:
        return [event for event in self.events[run] if event["type"] == kind]

    def calls(self) -> list[Call]:
        found = []
        for run in RUNS:
            ends = {e["work_item_id"]: e for e in self.of("stage_recorded", run)}
            for event in self.of("stage_dispatched", run):
                if event["stage"] in MODEL_STAGES:
                    end = ends[event["work_item_id"]]
                    found.append(Call(run, epoch(event["ts"]), epoch(end["ts"]), end.get("cause")))
        return sorted(found, key=lambda call: call.began)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    tasks = "".join(f'[[task]]\nid = "T{n}"\ntitle = "Do {n}"\n' for n in range(4))
    home = make_home(tmp_path_factory.mktemp("account"), tasks=tasks, scenario=SCENARIO)
    for run in RUNS:
        home.json("--run", run, "init-run", "--lane", "micro", "--max-concurrent", "2")
        home.json("--run", run, "add-task", "--all")
        for key, value in QUICK.items():
            home.json("--run", run, "set", key, value)
    with ExitStack() as stack:
        drivers = {}
        for run in RUNS:
            log = stack.enter_context((home.path / f"{run}.log").open("w"))
            drivers[run] = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "orchestrator", "--run", run, "run-headless", "--wait"],
                    cwd=home.repository,
                    env=home.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            )
            stack.callback(drivers[run].kill)
        statuses = {run: driver.wait(DONE_WITHIN_S) for run, driver in drivers.items()}
        said = {run: (home.path / f"{run}.log").read_text() for run in RUNS}
        yield Night(home, statuses, {run: home.events(run) for run in RUNS}, said)


def test_both_runs_come_to_their_end_and_spend_no_attempt(night: Night) -> None:
    assert night.statuses == dict.fromkeys(RUNS, 0), night.said
    for run in RUNS:
        assert not [e for e in night.of("retry_scheduled", run) if e["spends_attempt"]]
        assert night.of("cooldown_started", run)
        assert night.of("cooldown_ended", run)


def test_nothing_of_the_account_starts_before_its_reset(night: Night) -> None:
    """In either run, once it knows of the limit."""
    for run in RUNS:
        (first, *_) = night.of("cooldown_started", run)
        for call in night.calls():
            assert call.run != run or not epoch(first["ts"]) < call.began < first["until"]


def test_the_other_driver_is_told_at_once(night: Night) -> None:
    heard = [e for run in RUNS for e in night.of("cooldown_started", run) if e.get("by")]
    assert heard
    assert {event["by"] for event in heard} == {"claude"}
    assert min(epoch(event["ts"]) - event["at"] for event in heard) < 1.0


def test_one_canary_in_all_goes_out_at_a_time(night: Night) -> None:
    """From the first reset until one of them is answered."""
    reset = min(e["until"] for run in RUNS for e in night.of("cooldown_started", run))
    opened = min(
        epoch(e["ts"]) for run in RUNS for e in night.of("cooldown_ended", run) if not e.get("by")
    )
    canaries = [call for call in night.calls() if reset <= call.began < opened]
    assert canaries[-1].cause is None
    assert {call.cause for call in canaries[:-1]} == {"limit"}, "it outlasts its reset"
    for before, after in pairwise(canaries):
        assert before.ended <= after.began
    told = [e for run in RUNS for e in night.of("cooldown_ended", run) if e.get("by")]
    assert len(told) == 1


def test_what_was_found_out_is_kept_on_this_host(night: Night) -> None:
    kept = night.home.path / "home" / ".local" / "state" / "orchestrator" / "accounts"
    standing = json.loads((kept / "claude.json").read_text())["standing"]
    assert [window["name"] for window in standing["windows"]] == ["five_hour", "seven_day"]
    assert "until" not in standing["limit"], "it is open"
    assert not list(kept.glob("*.json.*"))


def test_a_new_run_knows_of_the_account_before_it_asks(night: Night, tmp_path: Path) -> None:
    night.home.json("--run", "new", "init-run", "--lane", "micro")
    night.home.json("--run", "new", "add-task", "--task", "T1")
    before = (night.home.store("new") / "events.jsonl").read_bytes()
    status = night.home.json("--run", "new", "status")
    assert [window["utilization"] for window in status["windows"]] == [0.5, 0.0]
    assert (night.home.store("new") / "events.jsonl").read_bytes() == before
