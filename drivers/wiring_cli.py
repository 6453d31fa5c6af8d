"""What commands need of adapters, beside the driver's own wiring: projects, tasks, repositories.

With wiring.py, the only module that names adapters for them.  Imports are as late as they can
be, because pydantic alone costs more than a whole command may.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapters.workspace.repository import Inspection
    from orchestrator.core.model import TaskId
    from orchestrator.core.settings import Project
    from orchestrator.core.state import RunState
    from orchestrator.journal.store import RunStore
    from orchestrator.ports.tasks import TaskSource


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


def inspect_repository(project: "Project") -> "Inspection":
    """Raises Usage where no run can be made from the repository.  Changes nothing."""
    from adapters.workspace.repository import inspect_repository as inspect

    return inspect(project.root, base=project.git.base, branch_prefix=project.git.branch_prefix)


async def tasks_at_work(state: "RunState", store: "RunStore") -> "frozenset[TaskId]":
    """Tasks for which a process of ours runs now."""
    return frozenset(
        lease.task_id for lease in state.in_flight.values() if not lease.is_interactive
    )


def project_file_schema() -> dict[str, Any]:
    from adapters.project.schema import ProjectFile

    return ProjectFile.model_json_schema()
