"""From a child's exit to the start of its task's next child, and an adopted child's exit."""

import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from tests.bench.lane import drive, independent

GOAL_P50_MS, GOAL_P99_MS = 5.0, 20.0
EXITS_MEASURED = 100


def report(directory: Path) -> Iterator[str]:
    limit_ms = trio.run(_exit_seen_ms)
    yield f"limit: child's exit -> trio awake: {limit_ms:.2f} ms"
    for size, child, pace in (
        (20, ("sleep", "0.05"), "children of 50 ms"),
        (200, ("sleep", "0.05"), "children of 50 ms"),
        (200, ("/bin/true",), "no-ops, so that the driver is never idle"),
    ):
        root = directory / "latency" / f"{size}-{child[0].replace('/', '')}"
        measured = drive(root, independent(size), child=child)
        took = sorted(1e3 * s for s in measured.turnarounds_s)
        p50, p99 = statistics.median(took), took[int(len(took) * 0.99)]
        yield (
            f"{size:>5} tasks, {pace}: p50 {p50:.1f} ms (goal {GOAL_P50_MS}), "
            f"p99 {p99:.1f} ms (goal {GOAL_P99_MS}), n = {len(took)}"
        )


async def _exit_seen_ms() -> float:
    """A child says the time and ends: how long until its waiter runs again."""
    took = []
    for _ in range(EXITS_MEASURED):
        done = await trio.run_process(
            ["sh", "-c", "date +%s.%N"], capture_stdout=True, stderr=subprocess.DEVNULL
        )
        took.append(time.time() - float(done.stdout))
    return 1e3 * statistics.median(took)
