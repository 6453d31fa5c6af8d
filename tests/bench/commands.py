"""How long a person waits: for --help, for status at 100,000 events, and for a run to resume."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.journal.store import RunRoot
from tests.bench import resume
from tests.bench.lane import drive, independent

GOAL_HELP_MS, GOAL_STATUS_MS = 80.0, 200.0
RUNS = 9
TASKS = 8_000
"""Six stages of two events each, and their own: about 100,000 events."""


def report(directory: Path, *, million: bool = False) -> Iterator[str]:
    limit_ms = _took_ms([sys.executable, "-c", "pass"], directory)
    yield f"limit: python -c pass: {limit_ms:.0f} ms"
    help_ms = _took_ms([sys.executable, "-m", "orchestrator", "--help"], directory)
    ratio = help_ms / limit_ms
    yield f"--help: {help_ms:.0f} ms (goal {GOAL_HELP_MS:.0f}), {ratio:.1f} x the limit"
    root = directory / "status"
    measured = drive(root, independent(TASKS))
    run_id = f"bench{TASKS}"
    events = 2 * measured.stages + TASKS
    command = [sys.executable, "-m", "orchestrator", "--run", run_id, "status", "--json"]
    status_ms = _took_ms(command, directory, runs_root=root)
    yield (
        f"status at about {events:,} events: {status_ms:.0f} ms (goal {GOAL_STATUS_MS:.0f}), "
        f"{status_ms / limit_ms:.1f} x the limit"
    )
    journal = RunRoot(root).find(run_id).events_path
    yield from resume.report(journal)
    if million:
        yield from resume.report(resume.lengthened(journal, 10))


def _took_ms(command: list[str], directory: Path, *, runs_root: Path | None = None) -> float:
    environment = {**os.environ, "ORCHESTRATOR_RUNS_ROOT": str(runs_root or directory)}
    took = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        subprocess.run(
            command,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        took.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(took)
