"""``stop``: ask the run's driver, from another terminal, to end."""

import argparse

from drivers.cli.context import Context
from orchestrator.core import steer

HELP = """Ask the driver of this run to stop; what has not ended can be resumed by run-headless.
--drain lets what runs finish; --now stops it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--drain", action="store_true", help="start nothing new, let children finish (default)"
    )
    how.add_argument("--now", action="store_true", help="stop the children too, resumable")


def run(args: argparse.Namespace, ctx: Context) -> int:
    how = "now" if args.now else "drain"
    state, entries = ctx.commit(
        lambda present: steer.stop(present, how=how, by=ctx.environment.user)
    )
    if not entries:
        ctx.note(f"it was asked to stop already: {state.stop_requested}")
    running = sorted(state.in_flight)
    ctx.result(
        {"run": state.run_id, "stop": state.stop_requested, "in_flight": running},
        f"asked to stop ({state.stop_requested}); in flight: {', '.join(running) or 'nothing'}",
    )
    return 0
