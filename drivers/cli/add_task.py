"""``add-task``: take tasks from the project's source into a run, all of those named or none."""

import argparse
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivers.cli.context import Context
from drivers.wiring_cli import open_task_source
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.model import Pipeline, TaskId
from orchestrator.core.options import model_of, value_of
from orchestrator.core.settings import EFFORTS, Project
from orchestrator.core.state import RunState
from orchestrator.core.steer import NewTask, add_tasks
from orchestrator.core.words import nearest
from orchestrator.ports.tasks import SourceTask, TaskSource

if TYPE_CHECKING:
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore

HELP = """Add tasks to a run, as their source describes them now.  The order does not matter: a
task waits for those it depends on, also for one that is added later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task", action="append", default=[], metavar="REF", help="a task's id; repeatable"
    )
    parser.add_argument("--all", action="store_true", help="every task that is not done")
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="L",
        help="every task with this label; also beside --task",
    )
    parser.add_argument(
        "--depends-on",
        action="append",
        default=[],
        metavar="REF,…",
        help="what each of them depends on, beside what the source says",
    )
    parser.add_argument(
        "--lane", choices=[lane.value for lane in Pipeline], help="other than the run's"
    )
    parser.add_argument("--model", metavar="M", help="for all of its model stages")
    parser.add_argument("--effort", choices=EFFORTS, help="for all of its model stages")
    parser.add_argument("--budget-usd", metavar="X", help="what each of them may cost at most")


def run(args: argparse.Namespace, ctx: Context) -> int:
    named = _words(args.task)
    if not (named or args.all or args.label):
        raise Usage("which tasks? say --task REF, --label L or --all")
    if args.all and (named or args.label):
        other = "--task" if named else "--label"
        raise Usage(f"--all takes every task: leave it out, or {other}")
    depends_on = [TaskId(word) for word in _words(args.depends_on)]

    async def add(run: "LiveRun", _: "RunStore") -> tuple[RunState, list[NewTask]]:
        source = open_task_source(run.state.project)
        chosen = _named(source, named)
        chosen += _selected(source, run.state, args, but=named)
        if not chosen:
            _refuse_if_nothing_fits(source, run.state.project, args.label)
        tasks = [_new_task(task, depends_on, args) for task in chosen]
        done = _done_dependencies(source, run.state, tasks)
        await run.commit(lambda state: add_tasks(state, tasks, done=done), now=ctx.now())
        return run.state, tasks

    state, tasks = ctx.with_run(add)
    for missing in sorted(state.missing):
        ctx.note(f"{missing} is waited for, and not in the run: add it too")
    rows = [_row(state, task.id) for task in tasks]
    result: dict[str, Any] = {"tasks": rows}
    if len(rows) == 1:
        result = {**rows[0], **result}
    nothing = "nothing to add: what there is is in the run already, or done"
    ctx.result(result, "\n".join(_line(row) for row in rows) or nothing)
    return 0


def _refuse_if_nothing_fits(source: TaskSource, project: Project, labels: Sequence[str]) -> None:
    """Where all that fits is in the run already, or done, there is nothing to complain about."""
    found = source.all()
    if not found:
        raise Refused(
            f"{Path(project.root, project.tasks.path)} has no tasks yet: write one, [[task]], and"
            ' below it id = "T1", title = "…", body = "…"'
        )
    if labels and not any(set(labels).intersection(task.labels) for task in found):
        known = sorted({label for task in found for label in task.labels})
        wanted = " or ".join(labels)
        near = nearest(labels[0], known) or f"; there are {', '.join(known) or 'no labels'}"
        raise Refused(f"no task has the label {wanted}{near}")


def _named(source: TaskSource, named: Sequence[str]) -> list[SourceTask]:
    tasks = [source.fetch(ref) for ref in named]
    for task in tasks:
        if task.done:
            raise Refused(f"{task.id} is done, says its source: reopen it there first")
    return tasks


def _selected(
    source: TaskSource, state: RunState, args: argparse.Namespace, *, but: Collection[str]
) -> list[SourceTask]:
    if not (args.all or args.label):
        return []
    wanted = set(args.label)
    return [
        task
        for task in source.all()
        if (args.all or wanted.intersection(task.labels))
        and not task.done
        and task.id not in state.tasks
        and task.id not in but
    ]


def _new_task(task: SourceTask, depends_on: Sequence[TaskId], args: argparse.Namespace) -> NewTask:
    return NewTask(
        id=task.id,
        title=task.title,
        body=task.body,
        depends_on=tuple(dict.fromkeys((*task.depends_on, *depends_on))),
        pipeline=Pipeline(args.lane) if args.lane else None,
        model=None if args.model is None else model_of("--model", args.model),
        effort=args.effort,
        budget_usd=value_of("budget_usd", args.budget_usd) if args.budget_usd else task.budget_usd,
        labels=task.labels,
        extra=task.extra,
    )


def _done_dependencies(
    source: TaskSource, state: RunState, tasks: Sequence[NewTask]
) -> set[TaskId]:
    """Raises Refused for a dependency that neither the run nor the source knows."""
    known = {*state.tasks, *(task.id for task in tasks)}
    others = {need: task.id for task in tasks for need in task.depends_on if need not in known}
    done = set()
    for need, of in others.items():
        try:
            found = source.fetch(need)
        except Refused as error:
            raise Refused(f"{of} depends on {need}: {error}") from error
        if found.done:
            done.add(need)
    return done


def _row(state: RunState, task_id: TaskId) -> dict[str, Any]:
    task = state.tasks[task_id]
    return {"task": task.id, "depends_on": task.depends_on, "waiting_for": sorted(task.unmet)}


def _line(row: dict[str, Any]) -> str:
    needs = ", ".join(row["depends_on"])
    return f"{row['task']}  depends on {needs}" if needs else f"{row['task']}"


def _words(given: Iterable[str]) -> list[str]:
    words = [word.strip() for each in given for word in each.split(",")]
    return list(dict.fromkeys(word for word in words if word))
