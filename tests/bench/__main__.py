"""``scripts/bench``: five of the performance goals, each beside a peer or a limit."""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench import commands, latency, order, overhead, shim_cost


def main() -> int:
    directory = Path(tempfile.mkdtemp(prefix="orchestrator-bench-"))
    try:
        for title, measure in (
            ("Overhead of a stage (goal 2)", overhead.report),
            ("Child's exit to its successor's start (goal 4)", latency.report),
            ("Order of work (goal 5)", order.report),
            ("Commands (goal 7)", commands.report),
            ("The shim (goal 9)", shim_cost.report),
        ):
            print(f"\n{title}", flush=True)
            for line in measure(directory):
                print(f"  {line}", flush=True)
    finally:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
