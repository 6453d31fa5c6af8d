"""Make the work item of a dispatch: all that determines the call, under one hash."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core.choice import effort_of, model_of
from orchestrator.core.events import StageDispatched
from orchestrator.core.model import (
    ENGINE_LANE,
    HostIdentity,
    Mode,
    SessionId,
    Stage,
    WorkItem,
    WorkItemId,
    lane_of,
)
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from orchestrator.core.plan import StartStage
from orchestrator.core.prompts import render
from orchestrator.core.sessions import session_of
from orchestrator.core.settings import TIMEOUT_S_DEFAULT
from orchestrator.core.state import RunState, Session, TaskState

TITLE_CHARS_MAX = 72


def make_work_item(
    state: RunState,
    start: StartStage,
    *,
    new_session: SessionId,
    run_dir: str,
    directory: str,
    now: float,
    change: str = "",
    mode: Mode | None = None,
    redact: Callable[[str], str] = str,
) -> WorkItem:
    """``new_session`` is used where the stage begins a session; ``run_dir`` is absolute;
    ``directory`` is where the worktree really is;
    ``change`` is the diff that review judges, or that implement takes over; ``mode`` is the
    run's where it is not given.
    ``redact`` takes out of a prompt what no prompt may hold.
    """
    task = state.tasks[start.task_id]
    project = state.project
    stage_settings = project.stage(start.stage)
    lane = lane_of(start.stage, mode or state.mode)
    session = session_of(task, start.stage) if lane != ENGINE_LANE else None
    is_model = lane != ENGINE_LANE
    item = WorkItem(
        id=work_item_id(task, start),
        content_hash="",
        run_id=state.run_id,
        task_id=task.id,
        stage=start.stage,
        attempt=start.attempt,
        dispatch=start.dispatch,
        lane=lane,
        model=model_of(state, task, start.stage),
        effort=effort_of(state, task, start.stage),
        prompt=(
            redact(_model_prompt(state, task, start.stage, change))
            if is_model
            else canonical_json(engine_inputs(state, task, start.stage, run_dir=run_dir))
        ),
        output_schema=OUTPUT_SCHEMAS.get(start.stage),
        session_id=(session.id if session else new_session) if is_model else None,
        resume=session is not None and session.calls + session_starts(task, start) > 0,
        cwd=directory if is_model else project.root,
        timeout_s=stage_settings.timeout_s or TIMEOUT_S_DEFAULT[start.stage],
        max_budget_usd=start.max_budget_usd if is_model else None,
        env=project.agent.env if is_model else {},
        created_at=now,
        inputs={"session_before": _session_before(session)} if is_model else {},
    )
    return msgspec.structs.replace(item, content_hash=content_hash(item))


def content_hash(item: WorkItem) -> str:
    """sha256 over the canonical JSON of what determines the call."""
    determines = {
        name: getattr(item, name)
        for name in (
            "run_id",
            "task_id",
            "stage",
            "attempt",
            "dispatch",
            "lane",
            "model",
            "effort",
            "prompt",
            "output_schema",
            "session_id",
            "cwd",
            "timeout_s",
            "max_budget_usd",
            "env",
        )
    }
    return hashlib.sha256(canonical_json(determines).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def dispatched(
    item: WorkItem, state: RunState, *, host: HostIdentity, tree_before: str
) -> StageDispatched:
    """The event that makes the dispatch durable: to be committed before anything starts."""
    task = state.tasks[item.task_id]
    return StageDispatched(
        task_id=item.task_id,
        stage=item.stage,
        attempt=item.attempt,
        dispatch=item.dispatch,
        work_item_id=item.id,
        content_hash=item.content_hash,
        lane=item.lane,
        host=host,
        timeout_s=item.timeout_s,
        branch=branch_of(state, task),
        worktree=worktree_of(state, task),
        session_id=item.session_id,
        resume=item.resume,
        model=item.model,
        effort=item.effort,
        prompt_sha256=hashlib.sha256(item.prompt.encode()).hexdigest(),
        tree_before=tree_before,
        max_budget_usd=item.max_budget_usd,
    )


def work_item_id(task: TaskState, start: StartStage) -> WorkItemId:
    return WorkItemId(f"{task.slug}/{start.stage}/a{start.attempt}/d{start.dispatch}")


def session_starts(task: TaskState, start: StartStage) -> int:
    """Dispatches of this attempt that came before: they may have begun the session."""
    return task.dispatches.get((start.stage, start.attempt), 0)


def branch_of(state: RunState, task: TaskState) -> str:
    git = state.project.git
    name = git.branch.format(prefix=git.branch_prefix, run=state.run_id, task=task.slug)
    return f"{name}-r{task.round}" if task.round > 1 else name


def worktrees_root(state: RunState) -> str:
    worktrees = state.project.git.worktrees
    return worktrees if worktrees.startswith("/") else f"{state.project.root}/{worktrees}"


def worktree_of(state: RunState, task: TaskState) -> str:
    git = state.project.git
    name = git.worktree.format(prefix=git.branch_prefix, run=state.run_id, task=task.slug)
    suffix = f"-r{task.round}" if task.round > 1 else ""
    return f"{worktrees_root(state)}/{name}{suffix}"


def engine_inputs(
    state: RunState, task: TaskState, stage: Stage, *, run_dir: str
) -> dict[str, Any]:
    """What a deterministic stage works on."""
    project = state.project
    commands = project.commands
    common: dict[str, Any] = {
        "stage": stage.value,
        "run_id": state.run_id,
        "run_dir": run_dir,
        "task_id": task.id,
        "slug": task.slug,
        "title": task.title,
        "root": project.root,
        "worktree": worktree_of(state, task),
        "branch": branch_of(state, task),
        "base_commit": project.git.base_commit,
        "env": project.agent.env,
        "reset": list(commands.reset) if task.run_reset else [],
    }
    match stage:
        case Stage.INTAKE:
            own: dict[str, Any] = {
                "worktrees_root": worktrees_root(state),
                "dependencies": _dependencies(state, task),
                "install": list(commands.install),
            }
        case Stage.TEST:
            own = {
                "install": list(commands.install),
                "test": list(commands.test),
                "lint": list(commands.lint),
                "typecheck": list(commands.typecheck),
                "start_commit": start_commit(task),
                "baseline_timeout_s": TIMEOUT_S_DEFAULT[Stage.TEST],
            }
        case _:
            own = {
                "checkpoint": msgspec.to_builtins(task.checkpoint),
                "installed": task.installed,
                "start_commit": start_commit(task),
                "message": commit_message(task),
            }
    return {**common, **own}


def start_commit(task: TaskState) -> str:
    """The commit that the task's work begins at, as intake made it."""
    intake: Mapping[str, Any] = task.outputs.get(Stage.INTAKE) or {}
    return str(intake.get("start_commit", ""))


def commit_message(task: TaskState) -> str:
    done = task.outputs.get(Stage.IMPLEMENT)
    summary = done.get("summary") if isinstance(done, dict) else None
    subject = " ".join(task.title.split())[:TITLE_CHARS_MAX] or task.id
    body = f"\n\n{summary.strip()}" if isinstance(summary, str) and summary.strip() else ""
    return f"{subject}{body}\n\nTask: {task.id}\n"


def _dependencies(state: RunState, task: TaskState) -> list[dict[str, str]]:
    """The branches to start from.  One that the source reported done has none here."""
    return [
        {"task_id": need, "branch": branch_of(state, state.tasks[need]), "commit": ""}
        for need in task.depends_on
        if need in state.tasks
    ]


def _model_prompt(state: RunState, task: TaskState, stage: Stage, change: str) -> str:
    return render(
        task,
        stage,
        template=state.project.stage(stage).prompt,
        base_commit=start_commit(task),
        branch=branch_of(state, task),
        change=change,
    )


def _session_before(session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"total_usd": 0.0, "usage": {}, "calls": 0}
    return {
        "total_usd": session.total_usd,
        "estimated_usd": session.estimated_usd,
        "usage": msgspec.to_builtins(session.usage),
        "calls": session.calls,
    }
