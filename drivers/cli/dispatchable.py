"""``dispatchable``: what could start now, and how much at once."""

import argparse

from drivers.cli import utilization
from drivers.cli.context import Context
from drivers.wiring_cli import hear_of_account
from drivers.wiring_host import resources_now
from orchestrator.core.bar import is_about_pausing
from orchestrator.core.capacity import capacity
from orchestrator.core.model import TaskId
from orchestrator.core.plan import plan, ready_tasks
from orchestrator.views.dispatchable import Dispatchable

HELP = """Show which tasks could start now, best first, and how many children may run at once.
limit is the cap in total: what is in flight counts against it; limited_by says what sets it."""
JSON_WHEN_PIPED = True

BARRED = frozenset({"paused", "parked", "stopping", "cooldown", "finished"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    utilization.add_arguments(parser)


def run(args: argparse.Namespace, ctx: Context) -> int:
    store, state = ctx.read()
    now = ctx.now()
    hear_of_account(state, ctx.environment.state_dir, now)
    room = capacity(
        state,
        now,
        max_concurrent=args.max_concurrent or state.settings.max_concurrent,
        utilization=args.util,
        host=resources_now(store, state),
    )
    due = plan(state, now=now, capacity=room)
    ready = [task.id for task in ready_tasks(state, now) if task.id not in state.in_flight]
    running: list[TaskId] = list(state.in_flight)
    is_barred = not due.starts and (due.limited_by in BARRED or is_about_pausing(due.limited_by))
    limit = min(room.limit, len(running)) if is_barred else room.limit
    limited_by = due.limited_by if is_barred else room.limited_by
    headroom = max(0, limit - len(running))
    ctx.result(
        Dispatchable(
            dispatchable=tuple(ready),
            limit=limit,
            limited_by=limited_by,
            in_flight=tuple(running),
            in_flight_count=len(running),
        ),
        f"{len(ready)} ready: {', '.join(ready) or 'none'}\n"
        f"{len(running)} in flight: {', '.join(running) or 'none'}\n"
        f"{headroom} more may start now: at most {limit} at once, by {limited_by}",
    )
    return 0
