"""``pause``: nothing new starts, of the run or of parts of it, until someone unpauses."""

import argparse

from drivers.cli.context import Context
from orchestrator.core import pausing, steer
from orchestrator.core.options import PAUSED

HELP = """Start nothing new in this run until it is unpaused; with --task or --lane only of these,
and the rest goes on.  What is running goes on, and its results are recorded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parts(parser)
    parser.add_argument("--reason", default=PAUSED, metavar="TEXT", help="why")


def add_parts(parser: argparse.ArgumentParser) -> None:
    """Of a run; ``unpause`` has the same."""
    parser.add_argument(
        "--task",
        action="extend",
        nargs="+",
        default=[],
        metavar="REF",
        help="only these tasks; what depends on them waits",
    )
    parser.add_argument(
        "--lane",
        action="extend",
        nargs="+",
        default=[],
        metavar="LANE",
        help="only what these lanes do: headless:claude, interactive:claude, engine:none",
    )


def run(args: argparse.Namespace, ctx: Context) -> int:
    by = ctx.environment.user
    if args.task or args.lane:
        return _pause_parts(args, ctx)
    state, entries = ctx.commit(lambda present: steer.pause(present, reason=args.reason, by=by))
    if not entries:
        ctx.note(f"it was paused already: {state.paused}")
    ctx.result(
        {"run": state.run_id, "run_state": state.status, "reason": state.paused},
        f"paused: {state.paused}; {ctx.command('unpause')} goes on",
    )
    return 0


def _pause_parts(args: argparse.Namespace, ctx: Context) -> int:
    state, entries = ctx.commit(
        lambda present: pausing.pause_parts(
            present, args.task, args.lane, reason=args.reason, by=ctx.environment.user
        )
    )
    if not entries:
        ctx.note("they were paused already")
    tasks = [steer.find_task(state, name).id for name in args.task]
    words = [*(["--task", *tasks] if tasks else []), *(["--lane", *args.lane] if args.lane else [])]
    ctx.result(
        {
            "run": state.run_id,
            "run_state": state.status,
            "paused_tasks": pausing.paused_tasks(state),
            "paused_lanes": state.settings.paused_lanes,
        },
        f"paused: {', '.join([*tasks, *args.lane])}; {ctx.command('unpause', *words)} goes on",
    )
    return 0
