"""``stop``: ask the run's driver, from another terminal, to end."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drivers.cli.context import Context
from drivers.wiring_cli import driver_now, without_driver
from orchestrator.core import steer
from orchestrator.core.state import RunState

if TYPE_CHECKING:
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Ask the driver of this run to stop; what has not ended can be resumed by run-headless.
--drain lets what runs finish; --now stops it, also where the driver itself is gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--drain", action="store_true", help="start nothing new, let children finish (default)"
    )
    how.add_argument("--now", action="store_true", help="stop the children too, resumable")


def run(args: argparse.Namespace, ctx: Context) -> int:
    how = "now" if args.now else "drain"

    async def ask(run: "LiveRun", store: "RunStore") -> tuple[RunState, str]:
        if driver_now(store, ctx.now()).state != "foreign":
            ended = await without_driver(run, store, end_children=args.now)
            if ended is not None:
                return run.state, _without_driver(ended, now=args.now)
        entries = await run.commit(
            lambda state: steer.stop(state, how=how, by=ctx.environment.user), now=ctx.now()
        )
        told = "asked" if entries else "had been asked already"
        return run.state, f"the driver was {told} to stop ({run.state.stop_requested})"

    state, said = ctx.with_run(ask)
    running = sorted(state.in_flight)
    ctx.result(
        {"run": state.run_id, "stop": how, "said": said, "in_flight": running},
        f"{said}; in flight: {', '.join(running) or 'nothing'}",
    )
    return 0


def _without_driver(ended: Sequence[str], *, now: bool) -> str:
    if not now:
        return "no driver is live: nothing new starts, and what runs ends by itself"
    return f"no driver is live; ended {', '.join(ended) or 'nothing'}"
