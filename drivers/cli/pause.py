"""``pause``: nothing new starts until someone unpauses."""

import argparse

from drivers.cli.context import Context
from orchestrator.core import steer

HELP = """Start nothing new in this run until it is unpaused.  What is running goes on, and its
results are recorded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="a person paused it", metavar="TEXT", help="why")


def run(args: argparse.Namespace, ctx: Context) -> int:
    state, entries = ctx.commit(
        lambda present: steer.pause(present, reason=args.reason, by=ctx.environment.user)
    )
    if not entries:
        ctx.note(f"it was paused already: {state.paused}")
    ctx.result(
        {"run": state.run_id, "run_state": state.status, "reason": state.paused},
        f"paused: {state.paused}; {ctx.command('unpause')} goes on",
    )
    return 0
