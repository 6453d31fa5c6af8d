"""A work item on disk, for whoever takes its dispatch up: the prompt, and the rest.

Invariant: the prompt is synced before this says so; the rest may be lost in a power cut, and what
the lease says then stands for it.
"""

import os
from typing import Any

import msgspec

from adapters.execution.stems import Stem
from orchestrator.core.model import WorkItem
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from orchestrator.core.state import Lease
from orchestrator.given_file import read_file

VERSION = 1


def write_work(stem: Stem, work: WorkItem) -> None:
    """Raises OSError, which names a file."""
    stem.directory.mkdir(parents=True, exist_ok=True)
    try:
        with stem.prompt.open("wb") as file:
            file.write(work.prompt.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        rest: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(work, prompt=""))
        stem.work.write_bytes(msgspec.json.encode({"v": VERSION, **rest}))
    except OSError as fault:
        if fault.filename is None:  # of a write: a person wants to know which disk is full
            fault.filename = str(stem.prompt)
        raise


def read_work(stem: Stem, lease: Lease) -> WorkItem | None:
    """None: lost, or of another dispatch than the lease's."""
    try:
        work = msgspec.json.decode(read_file(stem.work), type=WorkItem)
        prompt = read_file(stem.prompt).decode("utf-8", "replace")
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if work.content_hash != lease.content_hash:
        return None
    return msgspec.structs.replace(work, prompt=prompt)


def work_of_lease(lease: Lease) -> WorkItem:
    """What can still be said of a work item whose file is lost."""
    return WorkItem(
        id=lease.work_item_id,
        content_hash=lease.content_hash,
        run_id="",
        task_id=lease.task_id,
        stage=lease.stage,
        attempt=lease.attempt,
        dispatch=lease.dispatch,
        lane=lease.lane,
        model=lease.model,
        effort=lease.effort,
        prompt="",
        output_schema=OUTPUT_SCHEMAS.get(lease.stage),
        session_id=lease.session_id,
        resume=lease.resume,
        cwd=lease.worktree,
        timeout_s=lease.timeout_s,
        max_budget_usd=lease.max_budget_usd,
        env={},
        created_at=lease.dispatched_at,
    )
