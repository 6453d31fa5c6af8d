"""Step a task by hand: what ``next`` hands out and what ``record`` takes back.

The same planning, evidence and decisions as the driver's; only the model stage itself
is done by somebody else.
"""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from drivers import wiring
from drivers.headless.outside import Outside
from drivers.headless.stalled import is_about_money, paused_in_part, why_stalled
from drivers.stages import Dispatched, Errand, make_errand, verify
from drivers.wiring_cli import driver_now
from orchestrator.core import resources
from orchestrator.core.admission import Admission, Bar, Grant, paused_part
from orchestrator.core.decide import decide
from orchestrator.core.errors import OrchestratorError, Refused
from orchestrator.core.events import (
    KnownEvent,
    LeaseSuperseded,
    ResultRejected,
    RunFinalized,
    StageRecorded,
)
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    Mode,
    Report,
    ResultStatus,
    StageResult,
    TaskId,
    TaskStatus,
    WorkItem,
)
from orchestrator.core.plan import StartStage, barred, final_status
from orchestrator.core.recover import is_same_host
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.journal.live import LiveRun
from orchestrator.journal.projections import project
from orchestrator.journal.store import RunStore

CAUSES: dict[ResultStatus, Cause] = {
    ResultStatus.FAILURE: Cause.WORK_ERROR,
    ResultStatus.SCHEMA_VIOLATION: Cause.INVALID_OUTPUT,
    ResultStatus.TIMEOUT: Cause.TIMEOUT,
    ResultStatus.RATE_LIMITED: Cause.LIMIT,
    ResultStatus.PROVIDER_UNAVAILABLE: Cause.OUTAGE,
    ResultStatus.INTERRUPTED: Cause.INTERRUPTED,
}


async def next_work_item(
    run: LiveRun, store: RunStore, task_id: TaskId, *, resume: bool
) -> WorkItem | None:
    """The task's next model stage, leased; None where there is none now.

    Deterministic stages that come first are run here, to their end.
    """
    wiring.require_repository(run.state.project)
    async with wiring.attached(run, store) as outside:
        is_driven = driver_now(store, outside.host.now()).alive
        _free_lease(run.state.tasks[task_id], resume=resume, is_driven=is_driven)
        while True:
            task = run.state.tasks[task_id]
            if task.lease is not None and not task.lease.is_interactive:
                await _finish(run, outside, task.lease)
                continue
            start = _next_start(
                run.state, task, outside.host.now(), resume=resume, is_driven=is_driven
            )
            if start is None:
                await _finalize_if_settled(run, outside)
                return None
            errand = await make_errand(
                run.state,
                start,
                workspace=outside.workspace,
                host=outside.host,
                run_dir=outside.run_dir,
                new_session=outside.new_session(),
                mode=Mode.INTERACTIVE,
                redact=outside.redact,
            )
            if not await outside.executor.prepare(errand.work):
                why = resources.why("host_children", run.state.settings)
                raise Refused(f"{errand.work.id} cannot start now: {why}; try again later")
            await _lease(run, outside, errand, resume=resume, is_driven=is_driven)
            if not start.stage.is_deterministic:
                return errand.work
            ending = await outside.executor.run(errand.work, lambda _: None)
            await _record(run, outside, run.state.in_flight[task_id], ending)


async def record_result(run: LiveRun, store: RunStore, result: StageResult) -> dict[str, Any]:
    """Record what came back.  Raises Refused where it does not answer the outstanding dispatch."""
    async with wiring.attached(run, store) as outside:
        lease = run.state.in_flight.get(result.task_id)
        reason = _why_not(lease, run.state.run_id, result)
        if lease is None or reason:
            await _reject(run, outside, result, reason)
            raise Refused(reason)
        stem = store.stem(
            run.state.tasks[lease.task_id].slug, lease.stage, lease.attempt, lease.dispatch
        )
        cost = wiring.cost_of_result(result, lease, stem)
        recorded = await _record(run, outside, lease, _ending_of(result, lease, cost, outside))
        await _finalize_if_settled(run, outside)
        task = run.state.tasks[result.task_id]
        kept = await _tidy(run.state, outside, task, lease.worktree)
        return {
            "task_id": task.id,
            "outcome": recorded.outcome if recorded else None,
            **({"reason": _why(recorded)} if recorded and recorded.cause else {}),
            "task_state": task.status,
            "stage": task.stage,
            "attempt": task.attempt,
            "run_state": run.state.status,
            **({"worktree_kept": kept} if kept else {}),
        }


def _free_lease(task: TaskState, *, resume: bool, is_driven: bool) -> None:
    """Only a stage that an earlier ``next`` began, and no driver follows, is gone on with."""
    lease = task.lease
    if lease is None or (lease.is_interactive and resume):
        return
    if lease.is_interactive:
        raise Refused(
            f"task {task.id} is out already, as {lease.work_item_id}: record its result, or take "
            f"it over with `next --resume` if its holder is gone"
        )
    if is_driven or not lease.stage.is_deterministic:
        raise Refused(
            f"task {task.id} is out already, as {lease.work_item_id} on lane {lease.lane}: its "
            f"driver records it, or the next run-headless does where that one is gone"
        )


async def _lease(
    run: LiveRun, outside: Outside, errand: Errand, *, resume: bool, is_driven: bool
) -> None:
    """Make the dispatch durable, unless somebody else was quicker: then Refused."""

    def still_due(state: RunState) -> Sequence[KnownEvent]:
        task = state.tasks[errand.work.task_id]
        due = _next_start(state, task, outside.host.now(), resume=resume, is_driven=is_driven)
        if due is None or not due.allows(errand.start):
            return ()
        if task.lease is None:
            return errand.intents()
        old = task.lease.work_item_id
        _, *more = errand.intents()
        event = msgspec.structs.replace(errand.event, supersedes=old)
        return (LeaseSuperseded(task_id=task.id, work_item_id=old), event, *more)

    if not await _commit(run, outside, still_due):
        await outside.executor.discard(errand.work)
        raise Refused(f"{errand.work.id} was taken by somebody else just now: see status")


_STOPPING = "a stop was asked for; say it again once its driver has ended"


def _next_start(
    state: RunState, task: TaskState, now: float, *, resume: bool, is_driven: bool = False
) -> StartStage | None:
    bar = barred(state, is_driven=is_driven)
    if bar in {"paused", "stopping"}:
        raise Refused(f"run {state.run_id} is {bar}: {state.paused or _STOPPING}")
    is_due = task.status is TaskStatus.READY or (
        task.status is TaskStatus.COOLING and (task.not_before or 0.0) <= now
    )
    is_taken_over = resume and task.lease is not None and task.lease.is_interactive
    if bar or not (is_due or is_taken_over):
        return None
    if (paused := paused_part(state, task, Mode.INTERACTIVE)) is not None:
        raise Refused(f"{task.id} cannot start: {paused_in_part(state, paused.limited_by, task)}")
    if task.lease is not None:
        reserved_usd = task.lease.max_budget_usd
    else:
        match Admission.of(state, now, mode=Mode.INTERACTIVE).admit(task):
            case Bar(limited_by=limited_by) if is_about_money(limited_by):
                raise Refused(f"{task.id} cannot start: {why_stalled(state, limited_by)}")
            case Bar():
                return None
            case Grant(max_budget_usd=reserved_usd):
                pass
    return StartStage(
        task_id=task.id,
        stage=task.stage,
        attempt=task.attempt,
        dispatch=task.dispatches.get((task.stage, task.attempt), 0) + 1,
        max_budget_usd=reserved_usd,
    )


async def _finish(run: LiveRun, outside: Outside, lease: Lease) -> None:
    """A deterministic stage that an earlier ``next`` left behind: follow it to its end."""
    if not is_same_host(lease.host, outside.host.identity()):
        raise Refused(
            f"{lease.work_item_id} was started on host {lease.host.hostname}: go on there"
        )
    ending = await outside.executor.attach(lease, lambda _: None)
    await _record(run, outside, lease, ending)


async def _record(
    run: LiveRun, outside: Outside, lease: Lease, ending: Ending
) -> StageRecorded | None:
    out = Dispatched.of(run.state, lease)
    report: Report = await verify(out, ending, outside.workspace)
    entries = await _commit(run, outside, lambda state: decide(state, report, outside.host.now()))
    return next((e.event for e in entries if isinstance(e.event, StageRecorded)), None)


def _why(recorded: StageRecorded) -> str:
    """Why it did not succeed: the cause, and what is wrong in words."""
    return f"{recorded.cause}: {recorded.error}" if recorded.error else f"{recorded.cause}"


async def _tidy(state: RunState, outside: Outside, task: TaskState, worktree: str) -> str:
    """Remove a completed task's worktree, as a driver does.  Why it is kept; "" otherwise."""
    if task.status is not TaskStatus.COMPLETED or state.settings.keep_worktrees:
        return ""
    try:
        return await outside.workspace.remove_if_safe(
            worktree, task.branch, installed=task.installed
        )
    except (OSError, OrchestratorError) as problem:
        return f"{worktree} is kept: {problem}"


async def _reject(run: LiveRun, outside: Outside, result: StageResult, reason: str) -> None:
    if result.task_id in run.state.tasks:
        event = ResultRejected(
            task_id=result.task_id, work_item_id=result.work_item_id, reason=reason
        )
        await _commit(run, outside, lambda _: [event])


async def _finalize_if_settled(run: LiveRun, outside: Outside) -> None:
    def end(state: RunState) -> Sequence[KnownEvent]:
        is_over = state.is_settled and not state.in_flight and state.finalized is None
        return [RunFinalized(state=final_status(state))] if is_over else ()

    await _commit(run, outside, end)


def _why_not(lease: Lease | None, run_id: str, result: StageResult) -> str:
    """Why the result does not answer the dispatch that is out; "" where it does."""
    if lease is None:
        take = shlex.join(("next", "--task", result.task_id))
        return f"task {result.task_id} has no outstanding dispatch: `{take}` hands one out"
    if not lease.is_interactive:
        return f"{lease.work_item_id} is run by the driver, not by hand"
    expected = {
        "run_id": run_id,
        "work_item_id": lease.work_item_id,
        "content_hash": lease.content_hash,
        "stage": lease.stage,
        "attempt": lease.attempt,
    }
    for name, value in expected.items():
        if getattr(result, name) != value:
            return (
                f"{name} is {getattr(result, name)!s}, and the outstanding dispatch has {value!s}: "
                f"dispatch the stage again with `next --resume`, and record what comes back"
            )
    return ""


def _ending_of(result: StageResult, lease: Lease, cost: CallCost, outside: Outside) -> Ending:
    now = outside.host.now()
    cause, error = CAUSES.get(result.status), result.error or ""
    status = result.status
    if status is ResultStatus.SUCCESS:
        error = wiring.output_mistake(lease.stage, result.structured_output)
        if error:
            status, cause = ResultStatus.SCHEMA_VIOLATION, Cause.INVALID_OUTPUT
    return Ending(
        status=status,
        cause=cause,
        error=error,
        structured_output=result.structured_output,
        raw_output=result.raw_output or "",
        session_id=result.session_id,
        cost=cost,
        started_at=lease.dispatched_at,
        ended_at=now,
    )


async def _commit(run: LiveRun, outside: Outside, decide_now: Any) -> Any:
    entries = await run.commit(decide_now, now=outside.host.now())
    for entry in entries:
        with suppress(OSError):  # mended from the journal by the next driver
            project(RunStore(Path(outside.run_dir)), run.state, entry)
    return entries
