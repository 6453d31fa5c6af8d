"""``unpause``: go on after a pause, with more money where that was why."""

import argparse
from collections.abc import Sequence

from drivers.cli.context import Context
from orchestrator.core import steer
from orchestrator.core.events import KnownEvent
from orchestrator.core.state import RunState

HELP = """Let a paused run go on.  A driver that waited goes on by itself; one that has returned
is started again with run-headless."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--raise-budget", metavar="X", help="the run's new budget in USD")


def run(args: argparse.Namespace, ctx: Context) -> int:
    by = ctx.environment.user

    def decide(state: RunState) -> Sequence[KnownEvent]:
        raised = steer.raise_budget(state, args.raise_budget, by=by) if args.raise_budget else []
        return [*raised, *steer.unpause(state, by=by)]

    state, entries = ctx.commit(decide)
    if not entries:
        ctx.note("it was not paused")
    ctx.result(
        {
            "run": state.run_id,
            "run_state": state.status,
            "budget_usd": state.settings.budget_usd,
        },
        f"run {state.run_id} is {state.status}",
    )
    return 0
