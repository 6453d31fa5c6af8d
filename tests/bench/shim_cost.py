"""What a shim costs: memory while it waits, and the time it adds to a child."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import trio

from adapters.execution.stems import Stem
from adapters.execution.supervise import Start, Supervisor
from adapters.host.local import LocalHost
from adapters.host.watcher import FileWatcher
from orchestrator.core.settings import Settings

GOAL_PSS_MB, GOAL_MS = 7.0, 25.0
RUNS = 25


def report(directory: Path) -> Iterator[str]:
    limit_ms = trio.run(_direct_ms)
    yield f"limit: /bin/true through trio.run_process: {limit_ms:.1f} ms"
    took_ms, pss_mb = trio.run(_through_shim, directory)
    yield (
        f"/bin/true through a shim, exit record synced: {took_ms:.1f} ms "
        f"(+{took_ms - limit_ms:.1f}; goal {GOAL_MS:.0f})"
    )
    yield f"a waiting shim: {pss_mb:.1f} MB PSS (goal {GOAL_PSS_MB:.0f})"


async def _direct_ms() -> float:
    took = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        await trio.run_process(["/bin/true"])
        took.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(took)
