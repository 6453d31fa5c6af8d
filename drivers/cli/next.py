"""``next``: take one work item of the interactive lane."""

import argparse
import shlex
from typing import TYPE_CHECKING

from drivers.cli.context import Context, as_json
from drivers.cli.parser import NotBuilt
from orchestrator.core import steer
from orchestrator.core.model import TaskStatus
from orchestrator.core.words import in_words
from orchestrator.views.moments import clock
from orchestrator.views.status import run_reason

if TYPE_CHECKING:
    from orchestrator.core.model import WorkItem
    from orchestrator.core.state import RunState, TaskState
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Take a task's next model stage to do it by hand: its work item, or null where there is
none now.  Stages without a model that come before it are run first.  Hand the result back with
`record`."""
JSON_WHEN_PIPED = True

RESUMED = " (resume it, if whoever had it before has begun it)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", required=True, metavar="REF", help="the task's id")
    parser.add_argument(
        "--resume", action="store_true", help="take over a work item whose holder is gone"
    )
    parser.add_argument("--guard-supervisor-context", action=NotBuilt)
    parser.add_argument("--supervisor-resume-command", action=NotBuilt)


def run(args: argparse.Namespace, ctx: Context) -> int:
    from drivers.stepping import next_work_item

    async def take(run: "LiveRun", store: "RunStore") -> "tuple[WorkItem | None, RunState]":
        task = steer.find_task(run.state, args.task)
        return await next_work_item(run, store, task.id, resume=args.resume), run.state

    item, state = ctx.with_run(take)
    if item is None:
        ctx.note(_why_none(state, steer.find_task(state, args.task), ctx.now()))
    ctx.result(item, _text(item, args.task))
    return 0


def _why_none(state: "RunState", task: "TaskState", now: float) -> str:
    match task.status:
        case TaskStatus.WAITING:
            return f"{task.id} waits for {', '.join(sorted(task.unmet))}"
        case TaskStatus.COOLING if task.not_before is not None:
            return f"{task.id} is not to start before {clock(task.not_before)}"
        case TaskStatus.READY | TaskStatus.COOLING:
            return f"{task.id} is {task.status}, and the run is {run_reason(state, now)}"
        case _:
            again = shlex.join(("requeue", task.id))
            return f"{task.id} is {in_words(task.status)}: `{again}` does it again"


def _text(item: "WorkItem | None", task: str) -> str:
    if item is None:
        return f"nothing to do for {task} now"
    return "\n".join(
        [
            f"work item  {item.id}",
            f"stage      {item.stage}, attempt {item.attempt}",
            f"in         {item.cwd}",
            f"session    {item.session_id}{RESUMED if item.resume else ''}",
            "",
            item.prompt,
            "",
            "Hand back with `record --result FILE`, in the file:",
            as_json(_blank_result(item), indent=2),
            "structured_output is of this form:",
            as_json(item.output_schema, indent=2),
        ]
    )


def _blank_result(item: "WorkItem") -> dict[str, object]:
    """What it answers, and what is left to say."""
    return {
        "work_item_id": item.id,
        "content_hash": item.content_hash,
        "run_id": item.run_id,
        "task_id": item.task_id,
        "stage": item.stage,
        "attempt": item.attempt,
        "status": "success",
        "cost_usd": None,
        "structured_output": {},
    }
