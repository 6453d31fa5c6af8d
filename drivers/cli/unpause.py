"""``unpause``: go on after a pause, with more money where that was why."""

import argparse
from collections.abc import Sequence

from drivers.cli.context import Context
from drivers.cli.onward import onward
from drivers.cli.pause import add_parts
from drivers.wiring_cli import driver_now
from orchestrator.core import pausing, steer
from orchestrator.core.errors import Usage
from orchestrator.core.events import (
    Entry,
    KnownEvent,
    RunUnpaused,
    SettingsChanged,
    TaskChanged,
)
from orchestrator.core.state import RunState
from orchestrator.core.words import usd_text

HELP = """Let a paused run go on.  A driver that waited goes on by itself; one that has returned
is started again with run-headless.  With --task or --lane only what was paused so goes on."""


NAMED_MAX = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parts(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, of tasks and lanes")
    parser.add_argument("--raise-budget", metavar="X", help="the run's new budget in USD")


def run(args: argparse.Namespace, ctx: Context) -> int:
    by = ctx.environment.user
    has_parts = bool(args.task or args.lane)
    if has_parts and args.raise_budget:
        raise Usage("--raise-budget is of the whole run: give it without --task and --lane")
    budget_usd: float | None = None

    def decide(state: RunState) -> Sequence[KnownEvent]:
        nonlocal budget_usd
        if has_parts:
            return pausing.unpause_parts(state, args.task, args.lane, reason=args.reason, by=by)
        budget_usd = state.settings.budget_usd
        raised = steer.raise_budget(state, args.raise_budget, by=by) if args.raise_budget else []
        return [*raised, *steer.unpause(state, by=by)]

    state, entries = ctx.commit(decide)
    done = _done(entries, budget_usd)
    if not done:
        ctx.note("they were not paused" if has_parts else "it was not paused")
    _note_the_rest(ctx, state)
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


def _note_the_rest(ctx: Context, state: RunState) -> None:
    """What stays paused."""
    if state.paused is not None:
        ctx.note(f"the run itself is paused: {state.paused}; {ctx.command('unpause')} goes on")
    if tasks := pausing.paused_tasks(state):
        ctx.note(f"still paused: {ctx.command('unpause', '--task', *tasks[:NAMED_MAX])}")
    if lanes := state.settings.paused_lanes:
        ctx.note(f"still paused: {ctx.command('unpause', '--lane', *lanes)}")


def _done(entries: Sequence[Entry], budget_usd: float | None) -> list[str]:
    """``budget_usd``: before."""
    done = []
    for entry in entries:
        match entry.event:
            case RunUnpaused():
                done.append("unpaused")
            case TaskChanged(task_id=task_id):
                done.append(f"{task_id} goes on")
            case SettingsChanged(changes={"paused_lanes": _}):
                done.append("the lane goes on")
            case SettingsChanged(changes={"budget_usd": raised}):
                done.append(f"budget {_usd(budget_usd)} -> {_usd(raised)}")
            case _:
                pass
    return done


def _usd(amount: float | None) -> str:
    return "none" if amount is None else f"{usd_text(amount)} USD"
