"""What commands need of adapters, beside the driver's own wiring: projects, tasks, repositories.

With wiring.py, the only module that names adapters for them.  Imports are as late as they can
be, because pydantic alone costs more than a whole command may.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivers.wiring_host import this_host

if TYPE_CHECKING:
    from adapters.workspace.repository import Inspection
    from drivers.at_work import AtWork
    from orchestrator.core.model import HostIdentity, ProcessIdentity, TaskId
    from orchestrator.core.settings import Project
    from orchestrator.core.state import Lease, RunState
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunStore
    from orchestrator.ports.tasks import TaskSource
    from orchestrator.views.driver_log import DriverStatus


def load_project(spec: str | None, cwd: Path) -> "Project":
    from adapters.project.file import load_project as load

    return load(spec, cwd)


def project_notes(project: "Project") -> Sequence[str]:
    """What a person should hear before a run is made from the project."""
    from adapters.project.file import notes

    return notes(project)


def open_task_source(project: "Project") -> "TaskSource":
    from adapters.project.local_tasks import open_task_source as open_source

    return open_source(project)


def inspect_repository(project: "Project", run_id: str | None = None) -> "Inspection":
    """Raises Usage where no run can be made from the repository.  Changes nothing."""
    from adapters.workspace.repository import inspect_repository as inspect

    above = _above_the_tasks(project, run_id)
    return inspect(project.root, base=project.git.base, branch_prefix=above)


def _above_the_tasks(project: "Project", run_id: str | None) -> str:
    """The part of the branches' names that all tasks of the run share: a directory of branches."""
    shared = []
    for part in project.git.branch.split("/"):
        if "{task}" in part or (run_id is None and "{run}" in part):
            break
        shared.append(part.format(prefix=project.git.branch_prefix, run=run_id))
    return "/".join(shared)


async def tasks_at_work(run: "LiveRun", store: "RunStore") -> "AtWork":
    """Tasks for which a process of ours runs on this host, or might on another."""
    from drivers import at_work, wiring

    async with wiring.attached(run, store) as outside:
        return await at_work.look(run, outside.executor, outside.host)


def driver_now(store: "RunStore", now: float) -> "DriverStatus":
    from orchestrator.views.driver_log import read_driver

    return read_driver(store.driver_path, now=now, here=this_host(), is_alive=process_is_alive)


async def without_driver(
    run: "LiveRun", store: "RunStore", *, end_children: bool
) -> "list[TaskId] | None":
    """Keep drivers away; where ``end_children``, end what a dead one left, resumable.

    Returns the tasks it was ended for; None where a driver lives here: then that is its to do.
    """
    import trio

    from drivers import wiring
    from drivers.headless.lock import the_only_driver
    from orchestrator.core.errors import Blocked
    from orchestrator.core.recover import is_same_host

    ended: list[TaskId] = []
    try:
        with the_only_driver(store, lambda: driver_now(store, time.time())):
            async with wiring.attached(run, store) as outside, trio.open_nursery() as nursery:
                here = outside.host.identity()
                for lease in run.state.in_flight.values():
                    is_ours = not lease.is_interactive and is_same_host(lease.host, here)
                    if end_children and is_ours:
                        ended.append(lease.task_id)
                        nursery.start_soon(outside.executor.stop, lease)
    except Blocked:
        return None
    return ended


def process_is_alive(process: "ProcessIdentity", _: "HostIdentity") -> bool:
    """A process of this host and boot.  Where its start time is not known, by its pid alone."""
    from adapters.host import processes

    began = processes.start_time_of(process.pid)
    return began is not None and process.start_time in (0, began)


def hear_of_account(state: "RunState", state_dir: Path, now: float) -> None:
    """Let the state know what other drivers of its account on this host have found out."""
    from adapters.execution.claude.account import account_name
    from adapters.execution.claude.environment import read_oauth_token
    from adapters.host import account_file
    from orchestrator.core.errors import EnvironmentFault
    from orchestrator.core.fold_account import hear
    from orchestrator.core.standing import news

    if state.finalized is not None:
        return
    project = state.project
    try:
        token = read_oauth_token(project)
        name = account_name(project.agent, os.environ, oauth_token=token)
        standing = account_file.read(account_file.path_of(state_dir / "accounts", name))
    except (OSError, EnvironmentFault, account_file.NotShared):
        return  # the driver says so, where it matters
    hear(state, news(state, standing, account=name, now=now), now)


def lease_is_alive(store: "RunStore", state: "RunState") -> "Callable[[Lease], bool]":
    """Whether a dispatch's shim or child runs here.  Looks at files and processes, starts none."""
    from adapters.execution.stems import Stem, latest_start
    from adapters.host import processes

    here = this_host()

    def is_alive(lease: "Lease") -> bool:
        slug = state.tasks[lease.task_id].slug
        first = Stem.first(store.stem(slug, lease.stage, lease.attempt, lease.dispatch))
        stem = latest_start(first)
        if stem.is_locked():
            return True
        record = stem.read_shim()
        if record is None or record.boot_id != here.boot_id:
            return False
        return processes.is_alive((record.child.pid, record.child.start_time))

    return is_alive


def project_file_schema() -> dict[str, Any]:
    from adapters.project.schema import ProjectFile

    return ProjectFile.model_json_schema()
