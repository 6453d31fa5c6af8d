"""What every child meets: the run pauses with the diagnosis, one canary goes first, nothing is
spent."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli_process import Home, make_home

RUN = "r1"
ALL_FAIL = '[[call]]\nstage = "implement"\nfault = {{ name = "{fault}" }}\n'
FINE = "schema = 1\n"


def batch(path: Path, fault: str, *, tasks: int, at_once: int) -> Home:
    names = [f"T{n}" for n in range(1, tasks + 1)]
    listed = "".join(f'[[task]]\nid = "{name}"\ntitle = "Do {name}"\n' for name in names)
    home = make_home(path, tasks=listed, scenario=FINE + ALL_FAIL.format(fault=fault))
    home.json("--run", RUN, "init-run", "--lane", "micro", "--max-concurrent", str(at_once))
    home.json("--run", RUN, "add-task", "--all")
    return home


def of_type(events: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] in types]


@pytest.mark.parametrize(
    ("fault", "tasks", "at_once"),
    [
        ("schema_violation", 3, 1),
        pytest.param("crash", 8, 4, marks=pytest.mark.slow),
        pytest.param("no_result", 4, 2, marks=pytest.mark.slow),
        pytest.param("asks", 2, 1, marks=pytest.mark.slow),
        pytest.param("schema_violation", 5, 3, marks=pytest.mark.slow),
        pytest.param("max_turns", 3, 2, marks=pytest.mark.slow),
    ],
)
def test_a_storm_pauses_the_run_and_costs_nothing(
    tmp_path: Path, fault: str, tasks: int, at_once: int
) -> None:
    home = batch(tmp_path, fault, tasks=tasks, at_once=at_once)
    stormy = home.orchestrator("--run", RUN, "run-headless", "--wait")
    assert stormy.returncode == 3, stormy.stderr
    struck = home.events(RUN)
    (paused,) = of_type(struck, "run_paused")
    assert paused["systemic"] is True
    assert "tasks failed in the same way" in paused["reason"]
    assert paused["reason"].endswith(f"; then: orchestrator --run {RUN} unpause")
    status = home.json("--run", RUN, "status")
    assert {row["state"] for row in status["tasks"]} <= {"ready", "cooling", "waiting"}
    assert len([e for e in of_type(struck, "stage_recorded") if e.get("cause")]) <= 3 * at_once + 3

    (tmp_path / "scenario.toml").write_text(FINE)
    home.json("--run", RUN, "unpause")
    calm = home.orchestrator("--run", RUN, "run-headless", "--wait")
    assert calm.returncode == 0, calm.stderr
    after = home.events(RUN)[len(struck) :]
    calls = of_type(after, "stage_dispatched", "stage_recorded")
    of_models = [event["type"] for event in calls if event["stage"] in ("implement", "review")]
    assert of_models[:2] == ["stage_dispatched", "stage_recorded"], "one canary goes first"
    audit = home.json("--run", RUN, "audit")
    assert audit["clean"], json.dumps(audit)
    assert audit["events_audit"]["attempts_spent"] == 0
    rows = home.json("--run", RUN, "status")["tasks"]
    assert {row["state"] for row in rows} == {"completed"}
