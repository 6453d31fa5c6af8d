"""One dispatch outside the journal: what it needs before it starts, what its end is worth.

Shared by the headless driver and by ``next`` and ``record``.  Reads the state, never
writes it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from orchestrator.core.errors import OrchestratorError, WorktreeGone
from orchestrator.core.events import BudgetReserved, KnownEvent, StageDispatched
from orchestrator.core.model import (
    Cause,
    Checkpoint,
    Ending,
    Mode,
    Report,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.outputs import judge
from orchestrator.core.plan import StartStage
from orchestrator.core.sessions import session_of
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.core.work import dispatched, make_work_item, start_commit, worktree_of
from orchestrator.ports.host import Host
from orchestrator.ports.workspace import Workspace

DIFF_CHARS_MAX = 200_000
HAND_OVER_CHARS_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A dispatch ready to be committed: the work, and the event that makes it durable."""

    start: StartStage
    work: WorkItem
    event: StageDispatched

    def intents(self) -> list[KnownEvent]:
        """As they are to be committed together: the dispatch, and what it reserves."""
        usd = self.work.max_budget_usd
        if usd is None:
            return [self.event]
        reserved = BudgetReserved(task_id=self.work.task_id, work_item_id=self.work.id, usd=usd)
        return [self.event, reserved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """What verify() has to know of a dispatch that is out."""

    task_id: TaskId
    slug: str
    stage: Stage
    work_item_id: WorkItemId
    content_hash: str
    lane: str
    worktree: str
    tree_before: str
    number: int
    """Of the checkpoint: the task's recorded dispatches, this one included."""
    delivered: str
    """The commit that deliver left on the branch, which review judges; "" before."""

    @classmethod
    def of(cls, state: RunState, lease: Lease) -> "Dispatched":
        task = state.tasks[lease.task_id]
        return cls(
            task_id=task.id,
            slug=task.slug,
            stage=lease.stage,
            work_item_id=lease.work_item_id,
            content_hash=lease.content_hash,
            lane=lease.lane,
            worktree=lease.worktree,
            tree_before=lease.tree_before,
            number=task.records + 1,
            delivered=(task.outputs.get(Stage.DELIVER) or {}).get("commit", ""),
        )


async def make_errand(
    state: RunState,
    start: StartStage,
    *,
    workspace: Workspace,
    host: Host,
    run_dir: str,
    new_session: SessionId,
    mode: Mode | None = None,
    redact: Callable[[str], str] = str,
) -> Errand:
    """See that the worktree is the task's own where a model is to work in it, look at it where the
    stage is judged by it, and make the work item."""
    task = state.tasks[start.task_id]
    worktree = worktree_of(state, task)
    tree_before, change, directory = task.tree_before, "", worktree
    if not start.stage.is_deterministic:
        directory = await workspace.directory(worktree)
        tree_before = tree_before or await workspace.tree(worktree)
    if start.stage is Stage.REVIEW:
        change = await _change(workspace, worktree, task, chars_max=DIFF_CHARS_MAX)
    elif is_handed_over(task, start.stage):
        await workspace.salvage(worktree, task_slug=task.slug, number=task.records)
        change = await _change(workspace, worktree, task, chars_max=HAND_OVER_CHARS_MAX)
    work = make_work_item(
        state,
        start,
        new_session=new_session,
        run_dir=run_dir,
        directory=directory,
        now=host.now(),
        change=change,
        mode=mode,
        redact=redact,
    )
    event = dispatched(work, state, host=host.identity(), tree_before=tree_before)
    return Errand(start=start, work=work, event=event)


async def _change(workspace: Workspace, worktree: str, task: TaskState, *, chars_max: int) -> str:
    return await workspace.diff(
        worktree, start_commit(task), chars_max=chars_max, installed=task.installed
    )


def is_handed_over(task: TaskState, stage: Stage) -> bool:
    """Implement is to begin a session in a worktree that an earlier one has worked in."""
    is_again = task.attempt > 1 or task.interrupted
    return stage is Stage.IMPLEMENT and is_again and session_of(task, stage) is None


async def verify(out: Dispatched, ending: Ending, workspace: Workspace) -> Report:
    """Look for the evidence that a success needs, and keep a checkpoint of it."""
    checkpoint: Checkpoint | None = None
    if ending.status is ResultStatus.SUCCESS:
        if not out.stage.is_deterministic:
            ending = await _judged(out, ending, workspace)
        if ending.status is ResultStatus.SUCCESS:
            checkpoint = await workspace.checkpoint(
                out.worktree, task_slug=out.slug, stage=out.stage, number=out.number
            )
    return Report(
        work_item_id=out.work_item_id,
        content_hash=out.content_hash,
        ending=ending,
        checkpoint=checkpoint,
        lane_used=out.lane,
    )


async def _judged(out: Dispatched, ending: Ending, workspace: Workspace) -> Ending:
    tree = await workspace.tree(out.worktree)
    if out.stage is Stage.REVIEW:
        evidence = {**ending.evidence, "reviewed_commit": out.delivered, "reviewed_tree": tree}
        ending = msgspec.structs.replace(ending, evidence=evidence)
    conflicts: tuple[str, ...] = ()
    if out.stage is Stage.IMPLEMENT and tree != out.tree_before:
        conflicts = await workspace.conflict_markers(out.worktree, out.tree_before)
    return judge(out.stage, ending, tree_before=out.tree_before, tree=tree, conflicts=conflicts)


def cause_of(problem: Exception) -> Cause:
    """Of a fault of ours around a dispatch, or while it was prepared."""
    is_gone = isinstance(problem, WorktreeGone)
    return Cause.WORKTREE_GONE if is_gone else Cause.INFRASTRUCTURE


def in_words(problem: Exception) -> str:
    """One line.  What was raised on purpose says all by itself."""
    kind = "" if isinstance(problem, OrchestratorError) else f"{type(problem).__name__}: "
    return f"{kind}{problem}".splitlines()[0]


def fault(
    out: Dispatched, problem: Exception, *, now: float, ending: Ending | None = None
) -> Report:
    """A fault of ours around one dispatch: it costs that dispatch, never the driver.

    ``ending``: where the child had ended; what it cost stays on the bill.
    """
    ending = ending or Ending(status=ResultStatus.FAILURE, started_at=now, ended_at=now)
    ending = msgspec.structs.replace(
        ending,
        status=ResultStatus.FAILURE,
        cause=cause_of(problem),
        error=in_words(problem),
    )
    return Report(work_item_id=out.work_item_id, content_hash=out.content_hash, ending=ending)
