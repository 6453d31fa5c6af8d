"""Turn the report of a dispatch into the events it causes.

What each cause leads to is a row of follows.FOLLOWS.  A crash, a limit or an outage
spends no attempt; only a verdict about the work does.
"""

from collections.abc import Sequence

from orchestrator.core import breakers, crashes, crowding, limits
from orchestrator.core.errors import StaleReport
from orchestrator.core.events import (
    CascadeBlocked,
    KnownEvent,
    RetryScheduled,
    RunPaused,
    StageRecorded,
    TaskFailed,
    TaskHeld,
)
from orchestrator.core.follows import CRASHES, FOLLOWS, Follow
from orchestrator.core.graph import doomed_dependents
from orchestrator.core.learnings import learnings_from, signature_of
from orchestrator.core.model import Cause, Outcome, Report, Stage, TaskId, TaskStatus
from orchestrator.core.remedy import then_unpause
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.core.storm import in_place_of

LAST_WORDS_CHARS_MAX = 2_000
EXTENSIONS_MAX = 50
"""Reservations of one attempt that are used up before it counts as a failure: a bound on loops."""


def decide(state: RunState, report: Report, now: float) -> tuple[KnownEvent, ...]:
    """``now``: epoch seconds.  Raises StaleReport where the report answers no open dispatch."""
    task, lease = _answered(state, report)
    cause = report.ending.cause
    if cause is None:
        is_last = task.stage is task.pipeline.stages[-1]
        outcome = Outcome.COMPLETED if is_last else Outcome.ADVANCED
        recorded = _record(lease, report, outcome)
        events: Sequence[KnownEvent]
        events = (recorded, *limits.passed(state, lease, report.ending, now))
    else:
        events = _failed(state, task, lease, report, now)
        signature = signature_of(task.stage, report.ending)
        again = _same_attempt(task, lease, report, signature=signature)
        events = in_place_of(state, events, again, report.ending.error)
        events = breakers.idle_in_place_of(state, lease, events, again)
    return (*events, *breakers.too_dear(state, lease, events))


def _failed(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    assert report.ending.cause is not None
    match FOLLOWS[task.stage, report.ending.cause]:
        case Follow.RETRY:
            return _retry(state, task, lease, report, stage=task.stage)
        case Follow.IMPLEMENT:
            return _retry(state, task, lease, report, stage=Stage.IMPLEMENT)
        case Follow.SEND_BACK:
            return _send_back(state, task, lease, report)
        case Follow.HOLD:
            reason = report.ending.error or report.ending.cause.value
            held = TaskHeld(task_id=task.id, reason=reason + _kept(task, report.ending.cause))
            return (_record(lease, report, Outcome.HELD), held)
        case Follow.REPAIR:
            return _repair(state, task, lease, report, now)
        case Follow.ROTATE:
            return _rotate(state, task, lease, report)
        case Follow.AGAIN | Follow.FEWER:
            return _again(state, task, lease, report, now)
        case Follow.MORE_MONEY:
            return _more_money(state, task, lease, report)
        case Follow.WAIT_LIMIT:
            return _wait_limit(state, task, lease, report, now)
        case Follow.WAIT_OUTAGE:
            return _wait_outage(state, task, lease, report, now)
        case Follow.PAUSE:
            return _pause(state, task, lease, report, now)


def _answered(state: RunState, report: Report) -> tuple[TaskState, Lease]:
    for lease in state.in_flight.values():
        if lease.work_item_id == report.work_item_id:
            if lease.content_hash != report.content_hash:
                raise StaleReport(f"{report.work_item_id}: the content hash is of another dispatch")
            return state.tasks[lease.task_id], lease
    raise StaleReport(f"{report.work_item_id} is not an outstanding dispatch")


# -- a verdict about the work -------------------------------------------------------------------


def _retry(
    state: RunState, task: TaskState, lease: Lease, report: Report, *, stage: Stage
) -> tuple[KnownEvent, ...]:
    signature = signature_of(task.stage, report.ending)
    attempt = task.attempts.get(stage, 1) + 1
    if signature and signature == task.signature:
        why = f"{task.stage} failed twice in the same way: {report.ending.error}"
        return _fail(state, task, lease, report, why)
    if attempt > state.settings.attempts_max:
        why = f"{task.stage} failed, and {stage} has had {attempt - 1} attempts: "
        return _fail(state, task, lease, report, why + report.ending.error)
    delay_s = state.settings.retry_delay_s
    retry = RetryScheduled(
        task_id=task.id,
        stage=stage,
        attempt=attempt,
        spends_attempt=True,
        reason=_reason(report),
        learnings=learnings_from(task, report.ending),
        not_before=report.ending.ended_at + delay_s if delay_s else None,
        # A last attempt in the same session would walk the same path a third time.
        fresh_session=attempt == state.settings.attempts_max and stage is task.stage,
    )
    return (_record(lease, report, Outcome.RETRY, signature), retry)


def _send_back(
    state: RunState, task: TaskState, lease: Lease, report: Report
) -> tuple[KnownEvent, ...]:
    attempt = task.attempts.get(Stage.IMPLEMENT, 1) + 1
    if task.send_backs >= state.settings.send_backs_max or attempt > state.settings.attempts_max:
        why = f"review rejected it {task.send_backs + 1} times: {report.ending.error}"
        return _fail(state, task, lease, report, why)
    retry = RetryScheduled(
        task_id=task.id,
        stage=Stage.IMPLEMENT,
        attempt=attempt,
        spends_attempt=True,
        reason=_reason(report),
        learnings=learnings_from(task, report.ending),
        send_back=True,
    )
    return (_record(lease, report, Outcome.SENT_BACK), retry)


def _fail(
    state: RunState, task: TaskState, lease: Lease, report: Report, reason: str
) -> tuple[KnownEvent, ...]:
    signature = signature_of(task.stage, report.ending)
    failed = TaskFailed(task_id=task.id, stage=task.stage, reason=reason, signature=signature)
    doomed = doomed_dependents(state, task.id)
    return (
        _record(lease, report, Outcome.FAILED, signature),
        failed,
        *(CascadeBlocked(task_id=dependent, because=task.id) for dependent in doomed),
        *breakers.too_many_failed(state, failed, ending=1 + len(doomed), lease=lease),
    )


def _kept(task: TaskState, cause: Cause) -> str:
    """Where the work is of a task whose worktree is gone."""
    if cause is not Cause.WORKTREE_GONE or task.checkpoint is None:
        return ""
    return f"; what it had done is kept as commit {task.checkpoint.commit}"


def give_up(
    state: RunState, task_id: TaskId, reason: str, *, cause: Cause = Cause.INFRASTRUCTURE
) -> tuple[KnownEvent, ...]:
    """A task whose dispatch cannot even be prepared; () where it is not waiting for one."""
    task = state.tasks.get(task_id)
    if task is None or task.status not in {TaskStatus.READY, TaskStatus.COOLING}:
        return ()
    if FOLLOWS[task.stage, cause] is Follow.HOLD:
        return (TaskHeld(task_id=task.id, reason=reason + _kept(task, cause)),)
    doomed = doomed_dependents(state, task.id)
    failed = TaskFailed(task_id=task.id, stage=task.stage, reason=reason)
    return (
        failed,
        *(CascadeBlocked(task_id=dependent, because=task.id) for dependent in doomed),
        *breakers.too_many_failed(state, failed, ending=1 + len(doomed)),
    )


# -- not the work's fault -------------------------------------------------------------------------


def _repair(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    if task.infrastructure_retries >= state.settings.infrastructure_retries_max:
        why = f"{task.stage} could not run, {task.infrastructure_retries + 1} times: "
        return _fail(state, task, lease, report, why + report.ending.error)
    signature = signature_of(task.stage, report.ending)
    not_before = crashes.repaired_at(state, task, now)
    return _same_attempt(
        task, lease, report, not_before=not_before, infrastructure=True, signature=signature
    )


def _again(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    """At once, but where it dies again and again; what ended with its driver says nothing."""
    cause = report.ending.cause
    if cause in CRASHES and task.crashes + 1 >= state.settings.dispatches_max:
        why = f"{task.stage} died {task.crashes + 1} times: {report.ending.error}"
        return _fail(state, task, lease, report, why)
    if cause is Cause.OUT_OF_MEMORY:
        again = _same_attempt(task, lease, report, not_before=crowding.again_at(task, now))
        return (*again, crowding.fewer(state, task, report.ending.error, now))
    if cause is not Cause.CRASH or lease.ended_unattended:
        return _same_attempt(task, lease, report)
    not_before = crashes.again_at(state, task, now)
    signature = signature_of(task.stage, report.ending)
    return _same_attempt(task, lease, report, not_before=not_before, signature=signature)


def _rotate(
    state: RunState, task: TaskState, lease: Lease, report: Report
) -> tuple[KnownEvent, ...]:
    if task.rotations >= state.settings.rotations_max:
        return _retry(state, task, lease, report, stage=task.stage)
    return _same_attempt(task, lease, report, fresh_session=True)


def _more_money(
    state: RunState, task: TaskState, lease: Lease, report: Report
) -> tuple[KnownEvent, ...]:
    """What it reserves next, admission says.  A limit that is not ours would be met for ever."""
    if lease.max_budget_usd is not None and task.extensions < EXTENSIONS_MAX:
        return _same_attempt(task, lease, report)
    return _retry(state, task, lease, report, stage=task.stage)


def _wait_limit(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    until, events = limits.met(state, task, report.ending, now)
    return (*_same_attempt(task, lease, report, not_before=until), *events)


def _wait_outage(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    return _same_attempt(task, lease, report, not_before=limits.after_outage(state, task, now))


def _pause(
    state: RunState, task: TaskState, lease: Lease, report: Report, now: float
) -> tuple[KnownEvent, ...]:
    has_worked = bool(state.totals.cost_usd or state.windows)
    if report.ending.cause is Cause.AUTH and has_worked and not task.outages:
        # The login has worked here: another process may be renewing it just now.
        return _wait_outage(state, task, lease, report, now)
    again = _same_attempt(task, lease, report)
    if state.paused is not None:
        return again
    reason = f"{report.ending.error or report.ending.cause}{then_unpause(state)}"
    return (*again, RunPaused(reason=reason, by="driver", systemic=True))


def _same_attempt(
    task: TaskState,
    lease: Lease,
    report: Report,
    *,
    not_before: float | None = None,
    infrastructure: bool = False,
    fresh_session: bool = False,
    signature: str = "",
) -> tuple[KnownEvent, ...]:
    again = RetryScheduled(
        task_id=task.id,
        stage=task.stage,
        attempt=task.attempt,
        spends_attempt=False,
        reason=_reason(report),
        not_before=not_before,
        fresh_session=fresh_session,
        infrastructure=infrastructure,
        run_reset=infrastructure,
    )
    words = "" if task.stage.is_deterministic else report.ending.raw_output
    record = _record(lease, report, Outcome.AGAIN, signature, last_words=words)
    return (record, again)


def _reason(report: Report) -> str:
    cause = report.ending.cause
    return f"{cause}: {report.ending.error}" if report.ending.error else str(cause)


def _record(
    lease: Lease, report: Report, outcome: Outcome, signature: str = "", last_words: str = ""
) -> StageRecorded:
    ending = report.ending
    return StageRecorded(
        task_id=lease.task_id,
        stage=lease.stage,
        attempt=lease.attempt,
        dispatch=lease.dispatch,
        work_item_id=lease.work_item_id,
        status=ending.status,
        outcome=outcome,
        lane_used=report.lane_used or lease.lane,
        cause=ending.cause,
        error=ending.error,
        signature=signature,
        session_id=ending.session_id or lease.session_id,
        session_lost=ending.session_lost,
        last_words=last_words[-LAST_WORDS_CHARS_MAX:],
        model=lease.model,
        cost=ending.cost,
        checkpoint=report.checkpoint,
        output=ending.structured_output,
        evidence=ending.evidence,
        exit=ending.exit,
        started_at=ending.started_at,
        ended_at=ending.ended_at,
    )
