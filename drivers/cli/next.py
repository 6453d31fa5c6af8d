"""``next``: take one work item of the interactive lane."""

import argparse
from typing import TYPE_CHECKING

from drivers.cli.context import Context
from drivers.cli.parser import NotBuilt
from orchestrator.core import steer

if TYPE_CHECKING:
    from orchestrator.core.model import WorkItem
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Take a task's next model stage to do it by hand: its work item, or null where there is
none now.  Stages without a model that come before it are run first.  Hand the result back with
`record`."""
JSON_WHEN_PIPED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", required=True, metavar="REF", help="the task's id")
    parser.add_argument(
        "--resume", action="store_true", help="take over a work item whose holder is gone"
    )
    parser.add_argument("--guard-supervisor-context", action=NotBuilt)
    parser.add_argument("--supervisor-resume-command", action=NotBuilt)


def run(args: argparse.Namespace, ctx: Context) -> int:
    from drivers.stepping import next_work_item

    async def take(run: "LiveRun", store: "RunStore") -> "WorkItem | None":
        task = steer.find_task(run.state, args.task)
        return await next_work_item(run, store, task.id, resume=args.resume)

    item = ctx.with_run(take)
    ctx.result(item, _text(item, args.task))
    return 0


def _text(item: "WorkItem | None", task: str) -> str:
    if item is None:
        return f"nothing to do for {task} now"
    return "\n".join(
        [
            f"work item  {item.id}",
            f"stage      {item.stage}, attempt {item.attempt}",
            f"in         {item.cwd}",
            f"session    {item.session_id}{' (resume it)' if item.resume else ''}",
            "",
            item.prompt,
        ]
    )
