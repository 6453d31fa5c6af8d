"""``abandon``: tasks are not to be done, and with them what can never start without them."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drivers.cli.context import Context
from drivers.cli.onward import onward
from drivers.wiring_cli import tasks_at_work
from orchestrator.core import steer
from orchestrator.core.events import CascadeBlocked
from orchestrator.core.state import RunState

if TYPE_CHECKING:
    from orchestrator.core.events import Entry
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Abandon tasks: they are not done (their state is `rejected`), and what depends on them is
blocked.  Branches, worktrees and all records are kept.  A task whose process runs is refused:
stop it first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="a task's id")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the journal")


def run(args: argparse.Namespace, ctx: Context) -> int:
    names: Sequence[str] = list(dict.fromkeys(args.tasks))

    async def give_up(run: "LiveRun", store: "RunStore") -> "tuple[RunState, tuple[Entry, ...]]":
        at_work = await tasks_at_work(run, store)
        entries = await run.commit(
            lambda state: steer.abandon(state, names, reason=args.reason, live=at_work(state)),
            now=ctx.now(),
        )
        return run.state, entries

    state, entries = ctx.with_run(give_up)
    given_up = [steer.find_task(state, name) for name in names]
    blocked = [e.event.task_id for e in entries if isinstance(e.event, CascadeBlocked)]
    next_command, lines = onward(ctx, state)
    ctx.result(
        {
            "run": state.run_id,
            "tasks": [{"task": t.id, "state": t.status} for t in given_up],
            "blocked": blocked,
            "next": next_command,
        },
        "\n".join(
            [
                *(f"{t.id}  abandoned" for t in given_up),
                *(f"{b}  blocked: it depends on what is abandoned" for b in blocked),
                *lines,
            ]
        ),
    )
    return 0
