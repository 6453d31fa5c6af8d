"""``doctor``: look at the machine and the project, and say how to mend what is wrong."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from drivers.checkup import client, machine, project as checked, storage
from drivers.checkup.check import Check, Level, fail, ok, warn
from drivers.cli.context import Context
from drivers.wiring_cli import inspect_repository, load_project, open_task_source
from orchestrator.core.errors import ExitStatus, OrchestratorError
from orchestrator.core.settings import AgentSettings, Project

HELP = """Check this machine and the project for what a run needs, without an account's call and
without changing anything.  Exits with 0, or with 5 where a run could not work."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none of its own."""


def run(args: argparse.Namespace, ctx: Context) -> int:
    checks = tuple(_checks(ctx))
    works = all(check.level is not Level.FAIL for check in checks)
    ctx.result(
        {"schema": 1, "ok": works, "checks": [check._asdict() for check in checks]},
        _text(checks),
    )
    return ExitStatus.DONE if works else ExitStatus.ENVIRONMENT


def _checks(ctx: Context) -> Iterator[Check]:
    runs_root = ctx.root or ctx.environment.runs_root
    yield machine.system()
    yield machine.python()
    yield machine.git()
    yield machine.gh()
    yield machine.open_files()
    yield machine.processes()
    yield machine.memory()
    yield machine.subreaper()
    yield machine.pidfd()
    yield machine.inotify()
    yield machine.clock(storage.existing(runs_root))
    yield storage.runs_root(runs_root)
    yield storage.locks(runs_root)
    yield storage.room("room for runs", runs_root)
    project, check = _project(ctx.project)
    yield check
    if project is not None:
        yield _repository(project)
        yield _tasks(project)
        yield from checked.commands(project, os.environ)
        yield checked.models(project)
        yield storage.room("room for worktrees", Path(project.root, project.git.worktrees))
    agent = project.agent if project else AgentSettings()
    root = Path(project.root) if project else Path.cwd()
    yield client.version(agent, root, os.environ)
    yield client.login(project, agent, os.environ)
    yield client.permissions(agent)


def _project(spec: str | None) -> tuple[Project | None, Check]:
    try:
        project = load_project(spec, Path.cwd())
    except OrchestratorError as error:
        if spec is None and "init-project" in str(error):
            return None, warn("project", "none here", mend="orchestrator init-project")
        if spec is None and "in no git repository" in str(error):
            mend = "git init, commit, and then: orchestrator init-project"
            return None, warn("project", "none, and no git repository", mend=mend)
        return None, fail("project", str(error))
    return project, ok("project", f"{project.name} ({project.spec})")


def _repository(project: Project) -> Check:
    try:
        inspection = inspect_repository(project)
    except OrchestratorError as error:
        return fail("repository", str(error))
    notes = "".join(f"; {note}" for note in inspection.notes)
    return ok("repository", f"runs start from {inspection.base_commit[:12]}{notes}")


def _tasks(project: Project) -> Check:
    try:
        return checked.tasks(tuple(open_task_source(project).all()), project.tasks.path)
    except OrchestratorError as error:
        return fail("tasks", str(error))


def _text(checks: tuple[Check, ...]) -> str:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.level:<5} {check.name:<{width}}  {check.found}")
        if check.mend:
            lines.append(f"{'':<5} {'':<{width}}  -> {check.mend}")
    failed = sum(check.level is Level.FAIL for check in checks)
    said = "a run can work here" if not failed else f"no run can work here: {failed} to mend"
    if not failed and not any(check.name == "repository" for check in checks):
        said = "this machine can run; there is no project here"
    return "\n".join([*lines, "", said])
