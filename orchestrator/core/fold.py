"""Turn events into state, in place.

Every status a task can be given is a row of TRANSITIONS; the exhaustive test and
the diagram in docs/ read the same table.  A pair that is not in it, or an event
that does not fit the lease, is an InvariantBroken: it stops the run, in production too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from orchestrator.core.errors import InvariantBroken
from orchestrator.core.events import (
    BudgetReserved,
    CascadeBlocked,
    ChildAdopted,
    ChildStarted,
    CooldownStarted,
    DispatchReclaimed,
    DriverClaimed,
    Entry,
    LeaseSuperseded,
    ResultRejected,
    RetryScheduled,
    RunCreated,
    RunFinalized,
    RunPaused,
    RunUnpaused,
    SettingsChanged,
    StageDispatched,
    StageRecorded,
    StopRequested,
    SupervisorParked,
    TaskAbandoned,
    TaskAdded,
    TaskFailed,
    TaskHeld,
    TaskRequeued,
    Unknown,
    WindowObserved,
)
from orchestrator.core.graph import DOOMED, drop_void, push_cooling, push_ready, raise_heights
from orchestrator.core.model import (
    Cause,
    Outcome,
    ResultStatus,
    Stage,
    TaskId,
    TaskStatus,
    WorkItemId,
)
from orchestrator.core.sessions import book_call, start_session
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease, RunState, TaskState

_S = TaskStatus

TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.WAITING: frozenset({_S.READY, _S.CASCADE_BLOCKED, _S.HELD, _S.REJECTED, _S.WAITING}),
    _S.READY: frozenset(
        {
            _S.RUNNING,
            _S.WAITING,
            _S.HELD,
            _S.FAILED,
            _S.CASCADE_BLOCKED,
            _S.REJECTED,
            _S.READY,
        }
    ),
    _S.RUNNING: frozenset(
        {_S.READY, _S.COOLING, _S.HELD, _S.COMPLETED, _S.FAILED, _S.REJECTED, _S.CASCADE_BLOCKED}
    ),
    _S.COOLING: frozenset(
        {
            _S.RUNNING,
            _S.READY,
            _S.WAITING,
            _S.HELD,
            _S.FAILED,
            _S.REJECTED,
            _S.CASCADE_BLOCKED,
        }
    ),
    _S.HELD: frozenset({_S.READY, _S.WAITING, _S.REJECTED, _S.CASCADE_BLOCKED}),
    _S.COMPLETED: frozenset({_S.READY, _S.WAITING}),
    _S.FAILED: frozenset({_S.READY, _S.WAITING, _S.REJECTED}),
    _S.CASCADE_BLOCKED: frozenset({_S.READY, _S.WAITING, _S.REJECTED}),
    _S.REJECTED: frozenset({_S.READY, _S.WAITING}),
    _S.SUPERSEDED: frozenset(),
}


def replay(entries: Iterable[Entry]) -> RunState:
    """Rebuild a run from its whole journal."""
    state: RunState | None = None
    for entry in entries:
        state = fold(state, entry)
    if state is None:
        raise InvariantBroken("the journal is empty")
    return state


def fold(state: RunState | None, entry: Entry) -> RunState:
    event = entry.event
    if state is None:
        if not isinstance(event, RunCreated):
            raise InvariantBroken(f"event {entry.seq} ({type(event).__name__}) before run_created")
        state = RunState(
            run_id=entry.run_id,
            settings=event.settings,
            project=event.project,
            mode=event.mode,
            created_at=entry.ts,
        )
    else:
        if entry.seq != state.seq + 1:
            raise InvariantBroken(f"event {entry.seq} follows event {state.seq}")
        handler = _FOLDS.get(type(event))
        if handler is None:
            raise InvariantBroken(f"event {entry.seq} ({type(event).__name__}) in an open run")
        try:
            handler(state, event, entry)
        except InvariantBroken as broken:
            raise InvariantBroken(f"event {entry.seq}: {broken}") from None
    state.seq = entry.seq
    state.last_ts = entry.ts
    return state


# -- the run ------------------------------------------------------------------------------


def _settings_changed(state: RunState, event: SettingsChanged, entry: Entry) -> None:
    merged = {**msgspec.to_builtins(state.settings), **event.changes}
    state.settings = msgspec.convert(merged, Settings)


def _run_paused(state: RunState, event: RunPaused, entry: Entry) -> None:
    state.paused = event.reason


def _run_unpaused(state: RunState, event: RunUnpaused, entry: Entry) -> None:
    state.paused = None
    state.failures_in_row = 0
    state.failures_alike = 0


def _stop_requested(state: RunState, event: StopRequested, entry: Entry) -> None:
    state.stop_requested = event.how


def _supervisor_parked(state: RunState, event: SupervisorParked, entry: Entry) -> None:
    state.parked = event.reason


def _driver_claimed(state: RunState, event: DriverClaimed, entry: Entry) -> None:
    state.driver = event.driver
    state.driver_host = event.host
    state.stop_requested = None
    state.parked = None


def _run_finalized(state: RunState, event: RunFinalized, entry: Entry) -> None:
    _require(not state.in_flight, "the run ends while dispatches are out")
    state.finalized = event.state


def _cooldown_started(state: RunState, event: CooldownStarted, entry: Entry) -> None:
    if event.task_id is None:
        state.cooldown_until = event.until
        state.cooldown_reason = event.reason


def _window_observed(state: RunState, event: WindowObserved, entry: Entry) -> None:
    for window in event.windows:
        state.windows[window.name] = window


def _result_rejected(state: RunState, event: ResultRejected, entry: Entry) -> None:
    state.audit.results_rejected += 1


def _nothing(state: RunState, event: Unknown | BudgetReserved | ChildAdopted, entry: Entry) -> None:
    pass


# -- tasks ----------------------------------------------------------------------------------


def _task_added(state: RunState, event: TaskAdded, entry: Entry) -> None:
    _require(event.task_id not in state.tasks, f"task {event.task_id} is added twice")
    _require(event.slug not in state.slugs, f"slug {event.slug} is taken")
    pipeline = event.pipeline or state.settings.pipeline
    task = TaskState(
        id=event.task_id,
        slug=event.slug,
        title=event.title,
        body=event.body,
        pipeline=pipeline,
        depends_on=event.depends_on,
        added_seq=entry.seq,
        model=event.model,
        effort=event.effort,
        labels=event.labels,
        stage=pipeline.stages[0],
    )
    state.tasks[task.id] = task
    state.slugs[event.slug] = task.id
    state.counts[TaskStatus.WAITING] = state.counts.get(TaskStatus.WAITING, 0) + 1
    state.missing.pop(task.id, None)
    state.finalized = None
    for need in event.depends_on:
        if need in event.satisfied:
            continue
        state.dependents.setdefault(need, []).append(task.id)
        if need not in state.tasks:
            state.missing[need] = state.missing.get(need, 0) + 1
        if need not in state.tasks or state.tasks[need].status is not TaskStatus.COMPLETED:
            task.unmet.add(need)
    raise_heights(state, task)
    _make_ready_if_met(state, task)


def _task_failed(state: RunState, event: TaskFailed, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _set_status(state, task, TaskStatus.FAILED)
    task.reason = event.reason
    state.failures_in_row += 1
    alike = bool(event.signature) and event.signature == state.failure_signature
    state.failures_alike = state.failures_alike + 1 if alike else 1
    state.failure_signature = event.signature


def _cascade_blocked(state: RunState, event: CascadeBlocked, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _set_status(state, task, TaskStatus.CASCADE_BLOCKED)
    task.reason = f"{event.because} did not complete"


def _task_held(state: RunState, event: TaskHeld, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _set_status(state, task, TaskStatus.HELD)
    task.reason = event.reason


def _task_abandoned(state: RunState, event: TaskAbandoned, entry: Entry) -> None:
    task = _task(state, event.task_id)
    if task.lease is not None:
        _require(event.work_item_id == task.lease.work_item_id, "abandons another dispatch")
        _end_lease(state, task)
        state.audit.abandoned += 1
    _set_status(state, task, TaskStatus.REJECTED)
    task.reason = event.reason or "abandoned"


def _task_requeued(state: RunState, event: TaskRequeued, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _require(task.lease is None, f"task {task.id} is requeued while it runs")
    _require(event.round == task.round + 1, f"task {task.id}: round {event.round}")
    fresh = TaskState(
        id=task.id,
        slug=task.slug,
        title=task.title,
        body=task.body,
        pipeline=task.pipeline,
        depends_on=task.depends_on,
        added_seq=task.added_seq,
        model=task.model,
        effort=task.effort,
        labels=task.labels,
        status=task.status,
        stage=task.pipeline.stages[0],
        dispatches=task.dispatches,
        records=task.records,
        round=event.round,
        unmet=task.unmet,
        height=task.height,
        cost_usd=task.cost_usd,
    )
    state.tasks[task.id] = fresh
    state.finalized = None
    _set_status(state, fresh, TaskStatus.WAITING)
    _make_ready_if_met(state, fresh)
    _reopen_dependents(state, fresh)


def _reopen_dependents(state: RunState, requeued: TaskState) -> None:
    """Work built on the old branch is stale; what was blocked by it waits again."""
    queue = deque([requeued.id])
    seen = {requeued.id}
    while queue:
        current = queue.popleft()
        for dependent_id in state.dependents.get(current, ()):
            dependent = state.tasks.get(dependent_id)
            if dependent is None or dependent_id in seen:
                continue
            seen.add(dependent_id)
            queue.append(dependent_id)
            if dependent.branch:
                dependent.stale = True
            if current == requeued.id and not dependent.branch:
                dependent.unmet.add(current)
                if dependent.status is TaskStatus.READY:
                    _set_status(state, dependent, TaskStatus.WAITING)
            is_free = not any(
                state.tasks[need].status in DOOMED
                for need in dependent.unmet
                if need in state.tasks
            )
            if dependent.status is TaskStatus.CASCADE_BLOCKED and is_free:
                dependent.reason = ""
                _set_status(state, dependent, TaskStatus.WAITING)
                _make_ready_if_met(state, dependent)


# -- dispatches -------------------------------------------------------------------------------


def _stage_dispatched(state: RunState, event: StageDispatched, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _require(task.lease is None, f"task {task.id} is dispatched while {task.id} is leased")
    _require(not task.unmet, f"task {task.id} starts before {sorted(task.unmet)}")
    _require(
        (event.stage, event.attempt) == (task.stage, task.attempt),
        f"task {task.id} is at {task.stage} attempt {task.attempt}, "
        f"not at {event.stage} attempt {event.attempt}",
    )
    key = (event.stage, event.attempt)
    _require(event.dispatch == task.dispatches.get(key, 0) + 1, f"dispatch {event.work_item_id}")
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
        session_id=event.session_id,
        resume=event.resume,
        model=event.model,
        effort=event.effort,
        tree_before=event.tree_before,
        worktree=event.worktree,
        branch=event.branch,
        max_budget_usd=event.max_budget_usd,
    )
    _set_status(state, task, TaskStatus.RUNNING)
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
    state.totals.reserved_usd += event.max_budget_usd or 0.0
    state.audit.dispatched += 1
    drop_void(state)


def _child_started(state: RunState, event: ChildStarted, entry: Entry) -> None:
    _, lease = _leased(state, event.task_id, event.work_item_id)
    lease.shim = event.shim
    lease.child = event.child


def _stage_recorded(state: RunState, event: StageRecorded, entry: Entry) -> None:
    task, lease = _leased(state, event.task_id, event.work_item_id)
    _end_lease(state, task)
    task.records += 1
    state.audit.recorded += 1
    task.crashes += event.cause is Cause.CRASH
    task.outages = task.outages + 1 if event.cause is Cause.OUTAGE else 0
    if not event.stage.is_deterministic:
        state.audit.calls += 1
        by_lane = state.audit.calls_by_lane
        by_lane[event.lane_used] = by_lane.get(event.lane_used, 0) + 1
        state.audit.unattributed += event.lane_used != lease.lane
        book_call(task, event)
    if event.cost is not None:
        task.cost_usd += event.cost.cost_usd
        state.totals.add(event.stage, event.cost)
    if event.checkpoint is not None:
        task.checkpoints[event.stage] = event.checkpoint
    if event.output is not None:
        task.outputs[event.stage] = event.output
    if event.status is ResultStatus.SUCCESS and event.outcome in _MOVES_ON:
        _move_on(state, task, event)
    elif event.signature:
        task.signature = event.signature


_MOVES_ON = frozenset({Outcome.ADVANCED, Outcome.COMPLETED})


def _move_on(state: RunState, task: TaskState, event: StageRecorded) -> None:
    task.crashes = 0
    task.infrastructure_retries = 0
    task.interrupted = False
    task.tree_before = ""
    if task.signature.startswith(f"{event.stage}:"):
        task.signature = ""
    stages = task.pipeline.stages
    following = stages[stages.index(event.stage) + 1 :]
    _require((event.outcome is Outcome.COMPLETED) == (not following), "a stage ends out of order")
    if following:
        task.stage, task.attempt = following[0], task.attempts.get(following[0], 1)
        if following[0] is not Stage.IMPLEMENT:
            task.attempt = 1
        if event.stage is Stage.IMPLEMENT:
            task.learnings = ""
        _set_status(state, task, TaskStatus.READY)
    else:
        _complete(state, task)


def _complete(state: RunState, task: TaskState) -> None:
    _set_status(state, task, TaskStatus.COMPLETED)
    task.outputs.clear()
    task.learnings = ""
    state.failures_in_row = 0
    for dependent_id in state.dependents.get(task.id, ()):
        dependent = state.tasks.get(dependent_id)
        if dependent is not None:
            dependent.unmet.discard(task.id)
            _make_ready_if_met(state, dependent)


def _retry_scheduled(state: RunState, event: RetryScheduled, entry: Entry) -> None:
    task = _task(state, event.task_id)
    _require(task.lease is None, f"task {task.id} is retried while it runs")
    moved = event.stage is not task.stage or event.attempt != task.attempt
    task.stage, task.attempt = event.stage, event.attempt
    task.attempts[event.stage] = event.attempt
    task.not_before = event.not_before
    task.run_reset = event.run_reset
    task.infrastructure_retries += event.infrastructure
    task.send_backs += event.send_back
    task.interrupted = not event.spends_attempt and not event.infrastructure
    if moved:
        task.crashes = 0
        task.tree_before = ""
    if event.spends_attempt:
        state.audit.attempts_spent += 1
        task.learnings = event.learnings
    if event.fresh_session:
        start_session(task, event.stage, None)
    _set_status(state, task, TaskStatus.READY if event.not_before is None else TaskStatus.COOLING)


def _dispatch_reclaimed(state: RunState, event: DispatchReclaimed, entry: Entry) -> None:
    task, _ = _leased(state, event.task_id, event.work_item_id)
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
            _end_lease(state, task)
            task.interrupted = True
            _set_status(state, task, TaskStatus.READY)
        case _:
            raise InvariantBroken(f"a dispatch is reclaimed as {event.how!r}")


def _lease_superseded(state: RunState, event: LeaseSuperseded, entry: Entry) -> None:
    task, _ = _leased(state, event.task_id, event.work_item_id)
    _end_lease(state, task)
    task.interrupted = True
    state.audit.superseded += 1
    _set_status(state, task, TaskStatus.READY)


# -- what they share ----------------------------------------------------------------------------


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantBroken(message)


def _task(state: RunState, task_id: TaskId) -> TaskState:
    task = state.tasks.get(task_id)
    if task is None:
        raise InvariantBroken(f"there is no task {task_id}")
    return task


def _leased(state: RunState, task_id: TaskId, work_item_id: WorkItemId) -> tuple[TaskState, Lease]:
    task = _task(state, task_id)
    lease = task.lease
    if lease is None or lease.work_item_id != work_item_id:
        raise InvariantBroken(f"{work_item_id} is not the dispatch that task {task_id} is out for")
    return task, lease


def _end_lease(state: RunState, task: TaskState) -> None:
    lease = state.in_flight.pop(task.id)
    task.lease = None
    state.totals.reserved_usd -= lease.max_budget_usd or 0.0
    if not state.in_flight:
        state.totals.reserved_usd = 0.0


def _set_status(state: RunState, task: TaskState, status: TaskStatus) -> None:
    if status not in TRANSITIONS[task.status]:
        raise InvariantBroken(f"task {task.id} goes from {task.status} to {status}")
    state.counts[task.status] -= 1
    state.counts[status] = state.counts.get(status, 0) + 1
    task.status = status
    if status is TaskStatus.READY:
        push_ready(state, task)
    elif status is TaskStatus.COOLING:
        push_cooling(state, task)


def _make_ready_if_met(state: RunState, task: TaskState) -> None:
    if task.status is TaskStatus.WAITING and not task.unmet:
        _set_status(state, task, TaskStatus.READY)


_FOLDS: Mapping[type, Callable[[RunState, Any, Entry], None]] = {
    SettingsChanged: _settings_changed,
    TaskAdded: _task_added,
    StageDispatched: _stage_dispatched,
    ChildStarted: _child_started,
    ChildAdopted: _nothing,
    StageRecorded: _stage_recorded,
    DispatchReclaimed: _dispatch_reclaimed,
    LeaseSuperseded: _lease_superseded,
    ResultRejected: _result_rejected,
    RetryScheduled: _retry_scheduled,
    TaskFailed: _task_failed,
    CascadeBlocked: _cascade_blocked,
    TaskHeld: _task_held,
    TaskAbandoned: _task_abandoned,
    TaskRequeued: _task_requeued,
    CooldownStarted: _cooldown_started,
    WindowObserved: _window_observed,
    BudgetReserved: _nothing,
    RunPaused: _run_paused,
    RunUnpaused: _run_unpaused,
    StopRequested: _stop_requested,
    SupervisorParked: _supervisor_parked,
    DriverClaimed: _driver_claimed,
    RunFinalized: _run_finalized,
    Unknown: _nothing,
}
