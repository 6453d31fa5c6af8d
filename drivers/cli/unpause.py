"""``unpause``: go on after a pause, with more money where that was why."""

import argparse
from collections.abc import Sequence

from drivers.cli.context import Context
from drivers.cli.onward import onward
from drivers.wiring_cli import driver_now
from orchestrator.core import steer
from orchestrator.core.events import Entry, KnownEvent, RunUnpaused, SettingsChanged
from orchestrator.core.state import RunState

HELP = """Let a paused run go on.  A driver that waited goes on by itself; one that has returned
is started again with run-headless."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--raise-budget", metavar="X", help="the run's new budget in USD")


def run(args: argparse.Namespace, ctx: Context) -> int:
    by = ctx.environment.user

    budget_usd: float | None = None

    def decide(state: RunState) -> Sequence[KnownEvent]:
        nonlocal budget_usd
        budget_usd = state.settings.budget_usd
        raised = steer.raise_budget(state, args.raise_budget, by=by) if args.raise_budget else []
        return [*raised, *steer.unpause(state, by=by)]

    state, entries = ctx.commit(decide)
    done = _done(entries, budget_usd)
    if not done:
        ctx.note("it was not paused")
    is_driven = driver_now(ctx.store(), ctx.now()).alive
    next_command, lines = onward(ctx, state)
    ctx.result(
        {
            "run": state.run_id,
            "run_state": state.status,
            "budget_usd": state.settings.budget_usd,
            "driver_alive": is_driven,
            "next": next_command,
        },
        "\n".join([f"run {state.run_id}: {'; '.join(done) or 'nothing to do'}", *lines]),
    )
    return 0


def _done(entries: Sequence[Entry], budget_usd: float | None) -> list[str]:
    """``budget_usd``: before."""
    done = []
    for entry in entries:
        match entry.event:
            case RunUnpaused():
                done.append("unpaused")
            case SettingsChanged(changes={"budget_usd": raised}):
                done.append(f"budget {_usd(budget_usd)} -> {_usd(raised)}")
            case _:
                pass
    return done


def _usd(amount: float | None) -> str:
    return "none" if amount is None else f"{amount:.2f} USD"
