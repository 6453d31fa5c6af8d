"""What a circuit breaker is for, played by the real driver: the run pauses and says why, one goes
first after ``unpause``, and where that ends in the same way the run pauses again."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.cli_process import Home, make_home

RUN = "r1"
FINE = "schema = 1\n"
MODELS = ("implement", "review")


class Breaker(NamedTuple):
    call: str
    """What every call does, in the words of a scenario."""
    said: str
    """In the reason."""
    settings: dict[str, str]
    ends_tasks: bool = False


BREAKERS = {
    "spend": Breaker(
        "tokens = { output = 2_000_000 }",
        "attempts of stages with a model have cost",
        {},
    ),
    "zero_work": Breaker(
        'fault = "zero_work"',
        "calls in a row failed without any work",
        {"storm_tasks_max": "99"},
    ),
    "tasks": Breaker(
        'stage = "implement"\ndo = []',  # nothing is changed
        "2 tasks failed in the same way (T",
        {"attempts_max": "1", "failing_tasks_max": "2"},
        ends_tasks=True,
    ),
}


def batch(path: Path, breaker: Breaker, *, tasks: int, at_once: int) -> Home:
    listed = "".join(f'[[task]]\nid = "T{n}"\ntitle = "Do T{n}"\n' for n in range(1, tasks + 1))
    home = make_home(path, tasks=listed, scenario=f"{FINE}[[call]]\n{breaker.call}\n")
    home.json("--run", RUN, "init-run", "--lane", "micro", "--max-concurrent", str(at_once))
    home.json("--run", RUN, "add-task", "--all")
    for key, value in breaker.settings.items():
        home.json("--run", RUN, "set", key, value)
    return home


def calls(events: list[dict[str, Any]]) -> list[str]:
    kinds = ("stage_dispatched", "stage_recorded")
    return [e["type"] for e in events if e["type"] in kinds and e["stage"] in MODELS]


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKERS)
def test_a_breaker_pauses_the_run_and_one_goes_first(tmp_path: Path, name: str) -> None:
    breaker = BREAKERS[name]
    home = batch(tmp_path, breaker, tasks=9, at_once=2)
    first = home.orchestrator("--run", RUN, "run-headless", "--wait")
    assert first.returncode == 3, first.stderr
    seen = home.events(RUN)
    (paused,) = [event for event in seen if event["type"] == "run_paused"]
    assert paused["breaker"] == name
    assert breaker.said in paused["reason"]
    status = home.json("--run", RUN, "status")
    assert (status["run_state"], status["reason"]) == ("paused", f"paused: {paused['reason']}")
    shown = home.call("--run", RUN, "status", "--text").stdout
    assert f"orchestrator --run {RUN} unpause" in shown
    watched = home.call("--run", RUN, "watch").stdout
    assert breaker.said in watched
    assert first.stderr.count(breaker.said) >= 1
    driver = [json.loads(x) for x in (home.store(RUN) / "driver.jsonl").read_text().splitlines()]
    beat = [line for line in driver if line["type"] == "driver_heartbeat"][-1]
    assert (beat["limited_by"], beat.get("reason")) == ("paused", paused["reason"])

    home.json("--run", RUN, "set", "budget_usd", "100000")
    assert home.json("--run", RUN, "status")["run_state"] == "paused", "money alone is no answer"

    home.json("--run", RUN, "unpause")
    again = home.orchestrator("--run", RUN, "run-headless", "--wait")
    assert again.returncode == 3, again.stderr
    since = home.events(RUN)[len(seen) :]
    assert calls(since) == ["stage_dispatched", "stage_recorded"], "one, and no more"
    (paused,) = [event for event in since if event["type"] == "run_paused"]
    assert "went first" in paused["reason"] or "the canary failed" in paused["reason"]

    (tmp_path / "scenario.toml").write_text(FINE)
    home.json("--run", RUN, "unpause")
    calm = home.orchestrator("--run", RUN, "run-headless", "--wait")
    # One more than tripped it may have been out, and the one that went first.
    failed = sum(event["type"] == "task_failed" for event in [*seen, *since])
    assert bool(failed) == breaker.ends_tasks
    assert calm.returncode == (6 if failed else 0), calm.stderr
    rows = home.json("--run", RUN, "status")["tasks"]
    assert sum(row["state"] == "failed" for row in rows) == failed
    assert sum(row["state"] == "completed" for row in rows) == 9 - failed
    audit = home.json("--run", RUN, "audit")
    assert audit["clean"], json.dumps(audit)
    assert audit["events_audit"]["attempts_spent"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "said"),
    [("costly", BREAKERS["spend"].said), ("idle", BREAKERS["zero_work"].said)],
)
def test_a_rehearsal_shows_it(tmp_path: Path, scenario: str, said: str) -> None:
    home = make_home(tmp_path)
    played = home.orchestrator("rehearse", "--scenario", scenario, cwd=tmp_path)
    assert played.returncode == 3, played.stderr
    assert said in played.stdout + played.stderr
