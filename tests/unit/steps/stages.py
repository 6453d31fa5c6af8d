"""Run a stage in this process, on a real repository."""

import io
import json
import os
from typing import Any

from adapters.execution.steps.commands import Commands
from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.program import run_stage
from adapters.execution.steps.result import Printer, Result
from tests.unit.steps.repository import RUN, Repo


def inputs(repo: Repo, stage: str, slug: str = "T1", **more: Any) -> dict[str, Any]:
    """As the driver gives them."""
    start = more.pop("start_commit", repo.head)
    return {
        "stage": stage,
        "run_id": RUN,
        "run_dir": str(repo.path.parent / "run"),
        "task_id": slug,
        "slug": slug,
        "title": f"Task {slug}",
        "root": repo.root,
        "worktree": f"{repo.root}/.worktrees/{RUN}/{slug}",
        "worktrees_root": f"{repo.root}/.worktrees",
        "branch": f"orchestrator/{RUN}/{slug}",
        "base_commit": start,
        "start_commit": start,
        "message": f"Do {slug}\n\nTask: {slug}\n",
        "env": {},
        "reset": [],
        **more,
    }


def run(repo: Repo, stage: str, slug: str = "T1", **more: Any) -> Result:
    result, _ = run_and_read(repo, stage, slug, **more)
    return result


def run_and_read(
    repo: Repo, stage: str, slug: str = "T1", **more: Any
) -> tuple[Result, list[dict[str, Any]]]:
    """The result, and the lines that were printed."""
    out = io.StringIO()
    printer = Printer(out)
    fields = json.dumps(inputs(repo, stage, slug, **more))
    result = run_stage(Inputs.parse(fields), printer, Commands(dict(os.environ), printer))
    return result, [json.loads(line) for line in out.getvalue().splitlines()]


def dependency(slug: str) -> dict[str, str]:
    return {"task_id": slug, "branch": f"orchestrator/{RUN}/{slug}", "commit": ""}
