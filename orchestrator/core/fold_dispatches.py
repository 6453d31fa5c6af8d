"""Fold the events of a dispatch: its lease, its result, what recovery made of it."""

from orchestrator.core.errors import InvariantBroken
from orchestrator.core.events import (
    ChildStarted,
    DispatchReclaimed,
    Entry,
    LeaseSuperseded,
    RetryScheduled,
    StageDispatched,
    StageRecorded,
)
from orchestrator.core.fold_breakers import close, note_call, note_task_completed
from orchestrator.core.fold_storm import all_clear, note_attempt, note_failure
from orchestrator.core.follows import CRASHES
from orchestrator.core.graph import drop_void
from orchestrator.core.history import Sample
from orchestrator.core.model import Cause, Outcome, ResultStatus, Stage, TaskStatus
from orchestrator.core.sessions import book_call, start_session
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.core.transitions import (
    end_lease,
    leased,
    make_ready_if_met,
    require,
    set_status,
    sum_reserved,
    task_of,
)
from orchestrator.core.windows import until


def stage_dispatched(state: RunState, event: StageDispatched, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    require(task.lease is None, "a task is dispatched while it is leased")
    require(not task.unmet, "a task starts before what it depends on is completed")
    require(
        event.stage is task.stage and event.attempt == task.attempt,
        "a stage or an attempt is dispatched that is not the task's present one",
    )
    key = (event.stage, event.attempt)
    require(event.dispatch == task.dispatches.get(key, 0) + 1, "a dispatch is out of order")
    lease = Lease(
        task_id=task.id,
        work_item_id=event.work_item_id,
        content_hash=event.content_hash,
        stage=event.stage,
        attempt=event.attempt,
        dispatch=event.dispatch,
        lane=event.lane,
        host=event.host,
        timeout_s=event.timeout_s,
        dispatched_at=entry.ts,
        dispatched_seq=entry.seq,
        session_id=event.session_id,
        resume=event.resume,
        model=event.model,
        effort=event.effort,
        tree_before=event.tree_before,
        worktree=event.worktree,
        branch=event.branch,
        max_budget_usd=event.max_budget_usd,
    )
    set_status(state, task, TaskStatus.RUNNING)
    task.dispatches[key] = event.dispatch
    task.attempts[event.stage] = event.attempt
    task.lease = lease
    task.not_before = None
    task.run_reset = False
    task.branch = event.branch
    task.worktree = event.worktree
    task.tree_before = event.tree_before
    if event.session_id is not None:
        start_session(task, event.stage, event.session_id)
    state.in_flight[task.id] = lease
    if event.max_budget_usd:
        sum_reserved(state)
    state.audit.dispatched += 1
    drop_void(state)


def child_started(state: RunState, event: ChildStarted, entry: Entry) -> None:
    _, lease = leased(state, event.task_id, event.work_item_id)
    lease.shim = event.shim
    lease.child = event.child


def stage_recorded(state: RunState, event: StageRecorded, entry: Entry) -> None:
    task, lease = leased(state, event.task_id, event.work_item_id)
    end_lease(state, task)
    task.records += 1
    task.cause = event.cause
    state.audit.recorded += 1
    task.crashes += event.cause in CRASHES
    if event.cause is not None:
        task.rotations += event.cause is Cause.SESSION_LOST
        task.extensions += event.cause is Cause.BUDGET
    task.outages = task.outages + 1 if event.cause in _PASSING else 0
    task.last_words = event.last_words or task.last_words
    if not event.stage.is_deterministic:
        state.audit.calls += 1
        by_lane = state.audit.calls_by_lane
        by_lane[event.lane_used] = by_lane.get(event.lane_used, 0) + 1
        state.audit.unattributed += event.lane_used != lease.lane
        book_call(task, event)
        note_call(state, lease, event)
    if event.cost is not None:
        task.cost_usd += event.cost.cost_usd
        task.stage_usd[event.stage] = task.stage_usd.get(event.stage, 0.0) + event.cost.cost_usd
        state.totals.add(event.stage, event.cost)
    _remember(state, task, event)
    if ends_at := event.evidence.get("login_ends_at"):
        state.login_ends_at = str(ends_at)
    if event.checkpoint is not None and event.stage is Stage.IMPLEMENT:
        task.checkpoint = event.checkpoint
    if event.checkpoint is not None and event.stage is Stage.INTAKE:
        task.installed = event.checkpoint.commit
    if event.output is not None:
        task.outputs[event.stage] = event.output
    if event.stage is Stage.TEST:
        task.unchecked = str(event.evidence.get("proves_nothing", ""))[:UNCHECKED_CHARACTERS_MAX]
    if event.status is ResultStatus.SUCCESS and event.outcome in _MOVES_ON:
        _move_on(state, task, lease, event)
        return
    note_failure(state, event)
    if event.signature and event.outcome is not Outcome.AGAIN:
        task.signature = event.signature


UNCHECKED_CHARACTERS_MAX = 500
_PASSING = frozenset({Cause.OUTAGE, Cause.AUTH})
_MOVES_ON = frozenset({Outcome.ADVANCED, Outcome.COMPLETED})


def _remember(state: RunState, task: TaskState, event: StageRecorded) -> None:
    """What an attempt took, once there is a verdict: its dispatches without one count in."""
    took_s = event.exit.duration_s or max(0.0, event.ended_at - event.started_at)
    task.unjudged_s += took_s
    task.unjudged_usd += event.cost.cost_usd if event.cost else 0.0
    if event.outcome is Outcome.AGAIN:
        return
    sample = Sample(
        stage=event.stage,
        model="" if event.stage.is_deterministic else event.model,
        outcome=event.outcome,
        duration_s=round(task.unjudged_s, 3),
        cost_usd=task.unjudged_usd,
        peak_memory_bytes=event.exit.peak_memory_bytes,
        attempt=task.tries(event.stage, event.attempt),
        task=task.id,
    )
    state.history.add(sample)
    task.unjudged_s = task.unjudged_usd = 0.0


def _start_afresh(task: TaskState) -> None:
    """Another attempt, or another stage: what is counted of an attempt begins anew."""
    task.crashes = 0
    task.rotations = 0
    task.extensions = 0
    task.last_words = ""


def _move_on(state: RunState, task: TaskState, lease: Lease, event: StageRecorded) -> None:
    _clear_up(state, lease)
    _start_afresh(task)
    task.infrastructure_retries = 0
    task.interrupted = False
    task.tree_before = ""
    if task.signature and task.signature.startswith(f"{event.stage}:"):
        task.signature = ""
    stages = task.pipeline.stages
    following = stages[stages.index(event.stage) + 1 :]
    require((event.outcome is Outcome.COMPLETED) == (not following), "a stage ends out of order")
    if following:
        task.stage, task.attempt = following[0], 1
        if task.stage is Stage.IMPLEMENT:
            task.attempt = task.attempts.get(task.stage, 1)
        elif event.stage is Stage.IMPLEMENT:
            task.learnings = ""
        set_status(state, task, TaskStatus.READY)
    else:
        _complete(state, task)


def _clear_up(state: RunState, lease: Lease) -> None:
    """A success says that what is needed for its kind of stage is there."""
    all_clear(state, lease.stage)
    if lease.stage.is_deterministic:
        return
    close(state, lease)
    if state.canary == "model" and not state.breakers.tripped:
        state.canary = ""


def _complete(state: RunState, task: TaskState) -> None:
    set_status(state, task, TaskStatus.COMPLETED)
    task.outputs.clear()
    task.checkpoint = None
    task.learnings = ""
    note_task_completed(state)
    for dependent_id in state.dependents.get(task.id, ()):
        dependent = state.tasks.get(dependent_id)
        if dependent is not None:
            dependent.unmet.discard(task.id)
            make_ready_if_met(state, dependent)


def retry_scheduled(state: RunState, event: RetryScheduled, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    require(task.lease is None, "a task is retried while it runs")
    note_attempt(state, task, event)
    left = event.stage is not task.stage
    moved = left or event.attempt != task.attempt
    task.stage, task.attempt = event.stage, event.attempt
    task.attempts[event.stage] = event.attempt
    task.not_before = (
        None
        if event.not_before is None
        else until(event.not_before, at=entry.ts, settings=state.settings)
    )
    task.run_reset = event.run_reset
    task.infrastructure_retries += event.infrastructure
    task.send_backs += event.send_back
    task.interrupted = not event.spends_attempt and not event.infrastructure
    if moved:
        _start_afresh(task)
    if left or (moved and event.stage is not Stage.IMPLEMENT):
        # Implement is judged by what all of its attempts in a row changed: one that answers well
        # at last may find the work done, and must answer for what the others left.
        task.tree_before = ""
    if event.spends_attempt:
        state.audit.attempts_spent += 1
        task.learnings = event.learnings
    if event.fresh_session:
        start_session(task, event.stage, None)
    set_status(state, task, TaskStatus.READY if event.not_before is None else TaskStatus.COOLING)


def dispatch_reclaimed(state: RunState, event: DispatchReclaimed, entry: Entry) -> None:
    task, lease = leased(state, event.task_id, event.work_item_id)
    lease.taken_up = event.how
    audit = state.audit
    match event.how:
        case "adopted":
            audit.adopted += 1
        case "harvested":
            audit.harvested += 1
        case "resumed":
            audit.resumed += 1
        case "redispatched":
            audit.redispatched += 1
            end_lease(state, task)
            task.interrupted = True
            set_status(state, task, TaskStatus.READY)
        case _:
            raise InvariantBroken(f"a dispatch is reclaimed as {event.how!r}")


def lease_superseded(state: RunState, event: LeaseSuperseded, entry: Entry) -> None:
    task, _ = leased(state, event.task_id, event.work_item_id)
    end_lease(state, task)
    task.interrupted = True
    state.audit.superseded += 1
    set_status(state, task, TaskStatus.READY)
