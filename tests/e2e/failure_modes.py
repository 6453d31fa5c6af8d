"""Batches in which every task's agent fails in a way of its own, driven by the real driver."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.cli_process import Home, make_home

DONE_WITHIN_S = 170.0
RUN = "r1"
QUICK = {
    "outage_delay_s": "0.1",
    "crash_delay_s": "0.1",
    "limit_delay_s": "0.5",
    "limit_probe_s": "0.5",
    "limit_jitter_s": "0",
    "result_linger_s": "0.3",
    "interrupt_wait_s": "0.3",
    "terminate_wait_s": "0.3",
    "storm_tasks_max": "1000",
    "failing_tasks_max": "1000",
    "zero_work_max": "0",
}


class Kind(NamedTuple):
    """How a stage goes wrong."""

    faults: str
    """TOML, one call each, between lines of ``---``; then it goes well."""
    causes: tuple[str, ...] = ()
    """Of the recorded dispatches before the good one."""
    stage: str = "implement"
    """``review``: it shares a task with one of the others, which saves the stages between."""


@dataclass(frozen=True)
class Played:
    """A batch that was driven to its end."""

    home: Home
    status: int
    stderr: str
    events: list[dict[str, Any]]
    places: Mapping[str, tuple[str, str]]
    """The task and the stage of each kind."""

    def of(self, name: str, kind: str = "stage_recorded") -> list[dict[str, Any]]:
        task, stage = self.places[name]
        found = [e for e in self.events if e.get("task_id") == task and e.get("stage") == stage]
        return [e for e in found if e["type"] == kind]

    def causes(self, name: str) -> tuple[str | None, ...]:
        return tuple(record.get("cause") for record in self.of(name))

    def spent(self, name: str) -> int:
        return sum(bool(e["spends_attempt"]) for e in self.of(name, "retry_scheduled"))

    def sessions(self, name: str) -> list[str]:
        return [e["session_id"] for e in self.of(name, "stage_dispatched")]

    def file(self, name: str, rest: str) -> Path:
        task, stage = self.places[name]
        return self.home.store(RUN) / "stages" / task / f"{stage}-{rest}"

    def state(self, name: str) -> str:
        status = self.home.json("--run", RUN, "status")
        (row,) = [row for row in status["tasks"] if row["task_id"] == self.places[name][0]]
        return str(row["state"])


def play(
    path: Path,
    kinds: Mapping[str, Kind],
    *,
    once: str = "start = 1",
    top: str = "",
    project: str = "",
    at_once: int = 4,
    settings: Mapping[str, str] | None = None,
) -> Played:
    """``once``: what a fault is bound to, so that what follows it goes well."""
    places = _places(kinds)
    calls = []
    for name, kind in kinds.items():
        task, stage = places[name]
        for faults in kind.faults.strip().split("\n---\n"):
            bound = "" if faults.startswith(("start =", "attempt =")) else once
            calls.append(f'[[call]]\ntask = "{task}"\nstage = "{stage}"\n{bound}\n{faults}\n')
    ids = dict.fromkeys(task for task, _ in places.values())
    tasks = "".join(f'[[task]]\nid = "{name}"\ntitle = "Do {name}"\n' for name in ids)
    home = make_home(path, tasks=tasks, scenario=f"schema = 1\n{top}\n" + "\n".join(calls))
    file = home.repository / ".orchestrator" / "project.toml"
    file.write_text(file.read_text() + project)
    home.json("--run", RUN, "init-run", "--lane", "micro", "--max-concurrent", str(at_once))
    home.json("--run", RUN, "add-task", "--all")
    for key, value in {**QUICK, **(settings or {})}.items():
        home.json("--run", RUN, "set", key, value)
    return drive(home, places)


def _places(kinds: Mapping[str, Kind]) -> dict[str, tuple[str, str]]:
    tasks = [name for name, kind in kinds.items() if kind.stage == "implement"]
    reviews = [name for name, kind in kinds.items() if kind.stage == "review"]
    shared = dict(zip(reviews, tasks, strict=False))
    return {name: (shared.get(name, name), kind.stage) for name, kind in kinds.items()}


def drive(home: Home, places: Mapping[str, tuple[str, str]]) -> Played:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "--run", RUN, "run-headless", "--wait"],
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DONE_WITHIN_S,
        check=False,
    )
    return Played(home, done.returncode, done.stderr, home.events(RUN), places)
