"""``scripts/bench``: six of the performance goals, each beside a peer or a limit."""

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench import commands, latency, order, overhead, shim_cost


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--million", action="store_true", help="also resume 1,000,000 events")
    million = parser.parse_args().million
    directory = Path(tempfile.mkdtemp(prefix="orchestrator-bench-"))
    try:
        for title, measure in (
            ("Overhead of a stage (goal 2)", overhead.report),
            ("Child's exit to its successor's start (goal 4)", latency.report),
            ("Order of work (goal 5)", order.report),
            (
                "A long journal, and commands (goals 6 and 7)",
                partial(commands.report, million=million),
            ),
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
