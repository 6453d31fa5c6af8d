"""``requeue``: do a task again, from the start, on a new branch."""

import argparse

from drivers.cli.context import Context
from drivers.cli.onward import onward
from orchestrator.core import steer

HELP = """Do tasks again that have failed, are held, or are done with: from their first stage, on
a new branch (…-r2); the old branch is kept.  What waited for them waits again; what was built on
them is marked stale."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tasks", nargs="+", metavar="TASK", help="a task's id")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the journal")


def run(args: argparse.Namespace, ctx: Context) -> int:
    names = list(dict.fromkeys(args.tasks))
    state, _ = ctx.commit(lambda present: steer.requeue(present, names, reason=args.reason))
    again = [steer.find_task(state, name) for name in names]
    stale = sorted(task.id for task in state.tasks.values() if task.stale)
    if stale:
        ctx.note(f"built on what is done again, and stale: {', '.join(stale)}")
    next_command, lines = onward(ctx, state)
    ctx.result(
        {
            "run": state.run_id,
            "tasks": [{"task": t.id, "state": t.status, "round": t.round} for t in again],
            "stale": stale,
            "next": next_command,
        },
        "\n".join([*(f"{t.id}  {t.status}, round {t.round}" for t in again), *lines]),
    )
    return 0
