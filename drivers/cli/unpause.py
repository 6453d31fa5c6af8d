"""``unpause``: go on after a pause, with more money where that was why."""

import argparse
from collections.abc import Sequence

from drivers.cli.context import Context
from drivers.wiring_cli import driver_now
from orchestrator.core import steer
from orchestrator.core.events import KnownEvent
from orchestrator.core.model import Mode
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
    is_driven = driver_now(ctx.store(), ctx.now()).alive
    is_for_hands = state.mode is Mode.INTERACTIVE
    drive = None if is_driven or is_for_hands else ctx.command("run-headless", "--wait")
    ctx.result(
        {
            "run": state.run_id,
            "run_state": state.status,
            "budget_usd": state.settings.budget_usd,
            "driver_alive": is_driven,
            "next": drive,
        },
        _text(state.run_id, drive, is_driven=is_driven),
    )
    return 0


def _text(run_id: str, drive: str | None, *, is_driven: bool) -> str:
    if is_driven:
        return f"run {run_id} goes on: its driver is live"
    if drive is None:
        return f"run {run_id} is not paused"
    return f"run {run_id} is not paused, and nobody drives it: drive it with\n{drive}"
