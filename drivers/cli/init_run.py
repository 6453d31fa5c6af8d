"""``init-run``: make a run, whole or not at all."""

import argparse
import time
from pathlib import Path

import msgspec

from drivers.cli.context import Context
from drivers.wiring_cli import (
    inspect_repository,
    load_project,
    open_task_source,
    project_notes,
)
from orchestrator.core.events import RunCreated
from orchestrator.core.model import Mode, Pipeline
from orchestrator.core.options import changes_of, described
from orchestrator.core.settings import Project, Settings
from orchestrator.core.words import plain
from orchestrator.journal.store import is_safe_name

HELP = """Create a run on a project.  Its settings, and the project file as it is now, are kept
with the run: `set` changes settings later, the project's commands never change."""


ALWAYS_SHOWN = ("pipeline", "max_concurrent", "budget_usd")
"""What a run is like, and what it may cost."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lane",
        default="full",
        choices=[lane.value for lane in Pipeline],
        help="full: all six stages; lite: no scope; micro: no scope and no test (default: full)",
    )
    parser.add_argument("--max-concurrent", metavar="N", help="children at once (default: 3)")
    parser.add_argument("--budget-usd", metavar="X", help="what the run may spend (default: all)")
    parser.add_argument(
        "--mode",
        default="headless",
        choices=[mode.value for mode in Mode],
        help="who runs the model's stages",
    )


def run(args: argparse.Namespace, ctx: Context) -> int:
    written = {"pipeline": args.lane}
    for key in ("max_concurrent", "budget_usd"):
        if getattr(args, key) is not None:
            written[key] = getattr(args, key)
    settings = msgspec.convert(changes_of(Settings(), written), Settings)
    project = load_project(ctx.project, Path.cwd())
    open_task_source(project)  # the run keeps its project: a wrong one could never be mended
    now = ctx.now()
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    ctx.run_id = ctx.run_id or _unused_id(ctx, project, day)
    is_name = is_safe_name(ctx.run_id)  # otherwise create() refuses it, and git is not asked
    inspection = inspect_repository(project, ctx.run_id if is_name else None)
    git = msgspec.structs.replace(project.git, base_commit=inspection.base_commit)
    project = msgspec.structs.replace(project, git=git)
    created = RunCreated(settings=settings, project=project, mode=Mode(args.mode))
    store = ctx.run_root().create(project.name, ctx.run_id, day, first=[created], now=now)
    ctx.at(store)
    for note in (*project_notes(project), *inspection.notes):
        ctx.note(note)
    ctx.result(
        {
            "run": ctx.run_id,
            "store": store.path,
            "project": {"name": project.name, "root": project.root},
            "base_commit": inspection.base_commit,
            "mode": args.mode,
            "settings": described(settings),
        },
        _text(ctx, store.path, project, settings),
    )
    return 0


def _unused_id(ctx: Context, project: Project, day: str) -> str:
    taken = {store.run_id for store in ctx.run_root().runs()}
    stem, number = f"{project.name}-{day}", 1
    while f"{stem}-{number}" in taken:
        number += 1
    return f"{stem}-{number}"


def _text(ctx: Context, path: Path, project: Project, settings: Settings) -> str:
    lines = [f"run       {ctx.run_id}", f"store     {path}", f"project   {project.root}"]
    lines.append(f"base      {project.git.base_commit[:12]} ({project.git.base})")
    usual = described(Settings())
    own = {k: v for k, v in described(settings).items() if v != usual[k] or k in ALWAYS_SHOWN}
    lines += [f"{key:<9} {shown(value)}" for key, value in own.items()]
    every = f"{ctx.command('set')} shows every setting"
    return "\n".join([*lines, "", every, "", "next:", f"    {ctx.command('add-task', '--all')}"])


def shown(value: object) -> str:
    if isinstance(value, dict):
        value = [f"{key} {each}" for key, each in value.items()]
    return plain(value)
