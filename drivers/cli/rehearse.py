"""``rehearse``: a batch played through with the rehearsal agent, on a clone, without tokens.

The driver, git and the project's own commands are real; the model is scripted, and goes
wrong as the scenario says.  Nothing that a person owns is written to.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from drivers.cli import failure
from drivers.cli.context import Context
from drivers.cli.demo_report import Place
from drivers.cli.rehearse_report import Report
from drivers.cli.showcase import drive, keep_store_in, new_directory
from drivers.wiring_cli import inspect_repository, load_project, open_task_source
from orchestrator.core.errors import EnvironmentFault, ExitStatus, Refused, Usage
from orchestrator.core.events import RunCreated
from orchestrator.core.model import Pipeline, Stage
from orchestrator.core.options import changes_of
from orchestrator.core.settings import Project, Settings
from orchestrator.core.steer import NewTask, add_tasks
from orchestrator.journal.store import RunStore

if TYPE_CHECKING:
    from orchestrator.ports.tasks import SourceTask

HELP = """Play a batch through with the rehearsal agent in place of the client: no account, no
tokens.  It works on a throw-away clone of the project's repository with the project's tasks and
commands, or on a sample where there is no project here.  The scenario says what goes wrong."""

PROJECT_FILE = Path(".orchestrator", "project.toml")
MODEL_TIMEOUT_S = 10.0
"""A rehearsed stage thinks for a second or two: what takes longer hangs."""
QUICK: dict[str, str] = {
    "outage_delay_s": "1",
    "limit_delay_s": "2",
    "limit_probe_s": "1",
    "limit_jitter_s": "0.2",
    "result_linger_s": "1",
    "interrupt_wait_s": "1",
    "terminate_wait_s": "1",
}
"""The waits of a night, in seconds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="the scenarios that have a name")
    parser.add_argument(
        "--scenario", metavar="NAME", default="calm", help="its name, or its file (default: calm)"
    )
    parser.add_argument(
        "--task", action="append", default=[], metavar="REF", help="only this task; repeatable"
    )
    parser.add_argument(
        "--lane",
        default="full",
        choices=[lane.value for lane in Pipeline],
        help="full: all six stages; lite: no scope; micro: no scope and no test (default: full)",
    )
    parser.add_argument("--max-concurrent", metavar="N", help="children at once (default: 3)")
    parser.add_argument("--dir", metavar="DIR", help="where to play it (default: a new one)")


def run(args: argparse.Namespace, ctx: Context) -> int:
    if args.list:
        return _list(ctx)
    scenario = _scenario(args.scenario)
    if shutil.which("git") is None:
        raise EnvironmentFault("git is not on PATH: install it, the rehearsal works on a clone")
    theirs = _project_here(ctx)
    settings = _settings(args)
    if theirs is not None:  # refused before there is anything to throw away
        _chosen(theirs, args.task)
    place = Place(new_directory(args.dir, prefix="orchestrator-rehearsal-"))
    project = _staged(theirs, place, scenario, ctx)
    store = _make_run(args, ctx, place, project, settings, tasks_of=theirs or project)
    ended = drive(ctx, store, unit="USD of rehearsal money")
    report = Report.of(store, place, scenario=args.scenario, status=ended.status)
    ctx.result(report.value(ctx.command), report.text(ctx.command))
    if ended.signal is not None:
        sys.stdout.flush()
        failure.end_by(ended.signal)
    if ended.status in (ExitStatus.DONE, ExitStatus.TASKS_FAILED) and not report.is_clean:
        return ExitStatus.REFUSED
    return ended.status


def _list(ctx: Context) -> int:
    from adapters.execution.rehearsal.throwaway import named_scenarios

    found = {name: scenario.about for name, scenario in named_scenarios()}
    width = max(map(len, found))
    ctx.result(
        {"scenarios": found},
        "\n".join(f"{name:<{width}}  {about}" for name, about in found.items()),
    )
    return ExitStatus.DONE


def _scenario(name: str) -> Path:
    from adapters.execution.rehearsal.scenario import ScenarioError
    from adapters.execution.rehearsal.throwaway import find_scenario

    try:
        return find_scenario(name)
    except ScenarioError as error:
        raise Usage(str(error)) from error


def _project_here(ctx: Context) -> Project | None:
    """None: there is none, and nobody named one."""
    here = Path.cwd()
    is_here = any((at / PROJECT_FILE).is_file() for at in (here, *here.parents))
    if ctx.project is None and not is_here:
        ctx.note("there is no project here: on the sample repository")
        return None
    return load_project(ctx.project, here)


def _staged(theirs: Project | None, place: Place, scenario: Path, ctx: Context) -> Project:
    """The project as it is rehearsed: the clone, the rehearsal agent, deadlines to match."""
    from adapters.execution import rehearsal
    from adapters.execution.rehearsal.sample_repository import make_repository
    from adapters.execution.rehearsal.throwaway import clone

    try:
        if theirs is None:
            make_repository(place.repository)
            theirs = load_project(str(place.repository), Path.cwd())
        else:
            ctx.note(f"cloning {theirs.root} to {place.repository}; the original is left alone")
            clone(Path(theirs.root), place.repository)
    except subprocess.CalledProcessError as error:
        said = " ".join(str(error.stderr).split()) or f"status {error.returncode}"
        raise EnvironmentFault(f"git cannot make {place.repository}: {said}") from error
    agent = msgspec.structs.replace(
        theirs.agent,
        command=rehearsal.command(str(scenario)),
        env={**theirs.agent.env, "CLAUDE_CONFIG_DIR": str(place.agent_home)},
        oauth_token_file="",
        account=f"rehearsal-{place.directory.name}",
        billing="",
    )
    quick = {
        stage.value: msgspec.structs.replace(theirs.stage(stage), timeout_s=MODEL_TIMEOUT_S)
        for stage in Stage
        if not stage.is_deterministic
    }
    project = msgspec.structs.replace(
        theirs,
        root=str(place.repository),
        agent=agent,
        git=msgspec.structs.replace(theirs.git, worktrees=".worktrees"),
        stages={**theirs.stages, **quick},
    )
    inspection = inspect_repository(project)
    git = msgspec.structs.replace(project.git, base_commit=inspection.base_commit)
    return msgspec.structs.replace(project, git=git)


def _settings(args: argparse.Namespace) -> Settings:
    written = {"pipeline": args.lane, **QUICK}
    if args.max_concurrent is not None:
        written["max_concurrent"] = args.max_concurrent
    return msgspec.convert(changes_of(Settings(), written), Settings)


def _chosen(project: Project, refs: Sequence[str]) -> "list[SourceTask]":
    """Refused for one that is not there, and where there is none."""
    source = open_task_source(project)
    chosen = [source.fetch(ref) for ref in refs] or [t for t in source.all() if not t.done]
    if not chosen:
        raise Refused(f"{project.root} has no open task to rehearse with")
    return chosen


def _make_run(
    args: argparse.Namespace,
    ctx: Context,
    place: Place,
    project: Project,
    settings: Settings,
    *,
    tasks_of: Project,
) -> RunStore:
    keep_store_in(ctx, place.runs, run_id="rehearsal")
    now = ctx.now()
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    ctx.run_id = ctx.run_id or f"rehearsal-{int(now)}"
    created = RunCreated(settings=settings, project=project)
    store = ctx.run_root().create(project.name, ctx.run_id, day, first=[created], now=now)
    ctx.at(store)
    chosen = _chosen(tasks_of, args.task)
    known = {task.id for task in chosen}
    done = {need for task in chosen for need in task.depends_on if need not in known}
    tasks = [_new_task(task) for task in chosen]
    ctx.commit(lambda state: add_tasks(state, tasks, done=done))
    return store


def _new_task(task: "SourceTask") -> NewTask:
    return NewTask(
        id=task.id,
        title=task.title,
        body=task.body,
        depends_on=task.depends_on,
        budget_usd=task.budget_usd,
        labels=task.labels,
        extra=task.extra,
    )
