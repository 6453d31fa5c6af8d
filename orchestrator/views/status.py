"""The status of a run: its state and its driver's log as rows, for any front end.

The field names are promises (INTERFACE).  Invariant: looking changes nothing, and the
audits say clean only where every dispatch and every call is accounted for.
"""

from collections.abc import Callable

import msgspec

from orchestrator.core.budget import task_budget_usd
from orchestrator.core.model import (
    Cause,
    Mode,
    RunStatus,
    SessionId,
    Stage,
    TaskId,
    TaskStatus,
    WorkItemId,
    lane_of,
)
from orchestrator.core.sessions import session_of
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.core.windows import fullest
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.moments import clock
from orchestrator.views.money import Cost, UsedUp, budget_used_up, cost, rounded_usd
from orchestrator.views.outlook import Outlook, outlook

VERSION = 1

LeaseAlive = Callable[[Lease], bool]
"""Whether the shim or the child of a dispatch runs on this host."""


class TaskRow(msgspec.Struct, kw_only=True):
    task_id: TaskId
    title: str
    state: TaskStatus
    stage: Stage
    attempt: int
    depends_on: tuple[TaskId, ...]
    waiting_for: tuple[TaskId, ...]
    """Dependencies that are not completed, those that no added task has among them."""
    branch: str | None
    worktree: str | None
    session_id: SessionId | None
    cost_usd: float
    """In all of its rounds."""
    budget_usd: float | None
    """What it may cost, its own or every task's; null: as much as the run."""
    budget_used_up: UsedUp | None
    """Which, where one of its own keeps it waiting."""
    reason: str | None
    """Why it is not further: what it waits for, why it is held, failed, blocked."""
    cause: Cause | None
    """Of its last recorded dispatch; null where that was a success."""
    lane: str | None
    """Of the dispatch that is out."""
    deadline: float | None
    """Epoch seconds: when the time of the dispatch that is out is over."""
    running_s: float | None
    not_before: float | None
    """Epoch seconds, while it cools."""
    priority: int
    """Higher goes first."""
    paused: str | None
    """Why, while a person keeps this task alone from starting."""
    stale: bool
    """It was built on work that has been requeued since."""
    unchecked: str | None
    """By which command, as it fails on the base as a whole too: it says nothing of the work."""

    @property
    def is_by_hand(self) -> bool:
        """``next`` gave it out, and ``record`` takes it back."""
        return (self.lane or "").startswith("interactive:")


class LaneAudit(msgspec.Struct, kw_only=True):
    clean: bool
    total_calls: int
    by_lane: dict[str, int]
    unattributed: int


class EventsAudit(msgspec.Struct, kw_only=True):
    clean: bool
    dispatched: int
    """Without those that were superseded, abandoned, or given up before they were started."""
    recorded: int
    reclaimed: int
    """Taken up after a restart; of them ``reclaimed_by``: how."""
    superseded: int
    abandoned: int
    outstanding: int
    reclaimed_by: dict[str, int]
    orphaned: tuple[WorkItemId, ...]
    """Outstanding, and nobody who lives owns them: the next run-headless takes them up."""
    results_rejected: int
    attempts_spent: int


class WindowRow(msgspec.Struct, kw_only=True):
    name: str
    utilization: float | None
    resets_at: float | None
    status: str


class Scheduler(msgspec.Struct, kw_only=True):
    exit_reason: str | None
    limit: int
    limited_by: str | None


class Status(msgspec.Struct, kw_only=True):
    v: int = VERSION
    run_id: str
    repository: str
    base_commit: str
    """Where the branches begin that wait for no other task's."""
    run_state: RunStatus
    mode: Mode
    terminal: bool
    reason: str | None
    """Why it is paused, parked, or not starting anything."""
    paused_lanes: tuple[str, ...]
    """On these nothing new starts."""
    tasks: tuple[TaskRow, ...]
    counts: dict[TaskStatus, int]
    driver: DriverStatus
    lane_audit: LaneAudit
    events_audit: EventsAudit
    cost: Cost
    forecast: Outlook | None
    """What the driver expected when it last began; null where none was made."""
    windows: tuple[WindowRow, ...]
    scheduler: Scheduler
    created_at: float
    last_event_at: float
    at: float
    """Epoch seconds: when this was looked at."""
    seq: int


def status_of(
    state: RunState, driver: DriverStatus, *, now: float, lease_alive: LeaseAlive
) -> Status:
    return Status(
        run_id=state.run_id,
        repository=state.project.root,
        base_commit=state.project.git.base_commit,
        run_state=state.status,
        mode=state.mode,
        terminal=state.status.is_terminal,
        reason=run_reason(state, now),
        paused_lanes=state.settings.paused_lanes,
        tasks=tuple(_task_row(state, task, now) for task in state.tasks.values()),
        counts={status: n for status, n in state.counts.items() if n},
        driver=driver,
        lane_audit=lane_audit(state),
        events_audit=events_audit(state, driver, now=now, lease_alive=lease_alive),
        cost=cost(state),
        forecast=outlook(state.outlook),
        windows=tuple(
            WindowRow(
                name=window.name,
                utilization=window.utilization,
                resets_at=window.resets_at,
                status=window.status,
            )
            for _, window in sorted(state.windows.items())
        ),
        scheduler=Scheduler(
            exit_reason=driver.exit_reason,
            limit=state.settings.max_concurrent
            if driver.dispatch_limit is None
            else driver.dispatch_limit,
            limited_by=driver.limited_by,
        ),
        created_at=state.created_at,
        last_event_at=state.last_ts,
        at=now,
        seq=state.seq,
    )


def run_reason(state: RunState, now: float) -> str | None:
    if state.status.is_terminal:
        return None
    if state.parked is not None:
        return f"parked: {state.parked}"
    if state.paused is not None:
        return f"paused: {state.paused}"
    if state.stop_requested is not None:
        return f"stop --{state.stop_requested} was asked for"
    if state.cooldown_until is not None and state.cooldown_until > now:
        return f"cooling down until {clock(state.cooldown_until)}: {state.cooldown_reason}"
    share, name, ends_at = fullest(state, now)
    if share is not None and ends_at and share >= 1.0 - state.settings.headroom_share:
        name = name.removeprefix("usage_window:")
        return f"the account's {name} window is used up to {share:.0%}, until {clock(ends_at)}"
    if state.missing:
        return f"waiting for tasks that are not added: {', '.join(sorted(state.missing))}"
    if lanes := state.settings.paused_lanes:
        return f"paused: lane {', '.join(lanes)}"
    return None


def lane_audit(state: RunState) -> LaneAudit:
    """Clean: every recorded model call ran on the lane of its work item."""
    audit = state.audit
    return LaneAudit(
        clean=audit.unattributed == 0 and sum(audit.calls_by_lane.values()) == audit.calls,
        total_calls=audit.calls,
        by_lane=dict(sorted(audit.calls_by_lane.items())),
        unattributed=audit.unattributed,
    )


def events_audit(
    state: RunState, driver: DriverStatus, *, now: float, lease_alive: LeaseAlive
) -> EventsAudit:
    """Clean: all that was dispatched is recorded, ended otherwise, or in live hands.

    Adopting and harvesting go on with the same dispatch, so they add none.
    """
    audit = state.audit
    given_up = audit.superseded + audit.abandoned + audit.redispatched
    dispatched = audit.dispatched - given_up
    outstanding = len(state.in_flight)
    orphaned = tuple(
        lease.work_item_id
        for lease in state.in_flight.values()
        if not _is_in_live_hands(lease, driver, now, lease_alive)
    )
    by = {
        "adopted": audit.adopted,
        "harvested": audit.harvested,
        "resumed": audit.resumed,
        "redispatched": audit.redispatched,
    }
    return EventsAudit(
        clean=dispatched == audit.recorded + outstanding and not orphaned,
        dispatched=dispatched,
        recorded=audit.recorded,
        reclaimed=sum(by.values()),
        superseded=audit.superseded,
        abandoned=audit.abandoned,
        outstanding=outstanding,
        reclaimed_by=by,
        orphaned=orphaned,
        results_rejected=audit.results_rejected,
        attempts_spent=audit.attempts_spent,
    )


def _is_in_live_hands(
    lease: Lease, driver: DriverStatus, now: float, lease_alive: LeaseAlive
) -> bool:
    if lease.is_interactive:
        return now < lease.dispatched_at + lease.timeout_s
    return driver.alive or lease_alive(lease)


def _task_row(state: RunState, task: TaskState, now: float) -> TaskRow:
    session = session_of(task, task.stage)
    lease = task.lease
    is_over = task.status.is_terminal
    return TaskRow(
        task_id=task.id,
        title=task.title,
        state=task.status,
        stage=task.stage,
        attempt=task.attempt,
        depends_on=task.depends_on,
        waiting_for=() if is_over else tuple(sorted(task.unmet)),
        branch=task.branch or None,
        worktree=_worktree(state, task),
        session_id=lease.session_id if lease else (session.id if session else None),
        cost_usd=rounded_usd(task.cost_usd),
        budget_usd=task_budget_usd(state, task),
        budget_used_up=budget_used_up(state, task),
        reason=_reason(state, task),
        cause=task.cause,
        lane=lease.lane if lease else None,
        deadline=lease.dispatched_at + lease.timeout_s if lease else None,
        running_s=round(max(0.0, now - lease.dispatched_at), 1) if lease else None,
        not_before=task.not_before if task.status is TaskStatus.COOLING else None,
        priority=task.priority,
        paused=None if is_over else task.paused,
        stale=task.stale,
        unchecked=task.unchecked or None,
    )


def _worktree(state: RunState, task: TaskState) -> str | None:
    """A completed task's is removed, but for one that held more than its branch."""
    is_gone = task.status is TaskStatus.COMPLETED and not state.settings.keep_worktrees
    return None if is_gone else task.worktree or None


def _reason(state: RunState, task: TaskState) -> str | None:
    why = _why(state, task)
    if task.paused is None or task.status.is_terminal:
        return why
    is_next = task.status is TaskStatus.READY
    return f"paused: {task.paused}" + ("" if is_next or not why else f"; {why}")


def _doubts(task: TaskState) -> str | None:
    """Of what is completed."""
    doubts = ["stale: built on work that was requeued"] if task.stale else []
    if task.unchecked:
        doubts.append(f"unchecked: {task.unchecked}")
    return "; ".join(doubts) or None


def _why(state: RunState, task: TaskState) -> str | None:
    match task.status:
        case TaskStatus.WAITING:
            return "after " + ", ".join(
                need if need in state.tasks else f"{need} (not added)"
                for need in sorted(task.unmet)
            )
        case TaskStatus.COOLING:
            until = clock(task.not_before) if task.not_before is not None else "later"
            return f"not before {until}"
        case TaskStatus.READY:
            limit = budget_used_up(state, task)
            lane = lane_of(task.stage, state.mode)
            if lane in state.settings.paused_lanes:
                return f"lane {lane} is paused"
            return limit.in_words if limit else "next in line"
        case TaskStatus.RUNNING:
            lease = task.lease
            again = f", dispatch {lease.dispatch}" if lease and lease.dispatch > 1 else ""
            return f"{lease.lane}{again}" if lease else None
        case TaskStatus.COMPLETED:
            return _doubts(task)
        case _:
            return task.reason or None
