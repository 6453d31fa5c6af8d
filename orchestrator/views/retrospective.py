"""What became of a run: against its forecast, where its time and its money went, what failed.

From the journal alone.  Of a run that goes on, it says how it stands.
"""

from collections.abc import Sequence

import msgspec

from orchestrator.core.model import Cause, RunStatus, Stage, TaskId, TaskStatus
from orchestrator.core.state import RunState
from orchestrator.views.cost_books import CostBooks, Sums, Waste
from orchestrator.views.cost_report import usd
from orchestrator.views.outlook import Score, score
from orchestrator.views.time_books import TaskTimes, TimeBooks

VERSION = 1
SLOWEST = 5
FAILED_STATES = (
    TaskStatus.FAILED,
    TaskStatus.HELD,
    TaskStatus.CASCADE_BLOCKED,
    TaskStatus.REJECTED,
)


class StageTime(msgspec.Struct, kw_only=True):
    stage: Stage
    dispatches: int
    total_s: float
    median_s: float
    cost_usd: float


class TaskTime(msgspec.Struct, kw_only=True):
    """From when it could start, to its end or to now."""

    task_id: TaskId
    span_s: float
    running_s: float
    cost_usd: float


class TimeSpent(msgspec.Struct, kw_only=True):
    """Summed over the tasks: so it may be more than the run took."""

    running_s: float
    for_a_start_s: float
    """It could have started: no slot, no money, a full window, or no driver."""
    for_a_limit_s: float
    """Cooling down after a limit, an outage or a failure."""
    for_a_person_s: float
    for_dependencies_s: float


class Money(msgspec.Struct, kw_only=True):
    total_usd: float
    budget_usd: float | None
    waste: dict[Waste, float]
    """USD; they sum to the total."""


class Failed(msgspec.Struct, kw_only=True):
    task_id: TaskId
    state: TaskStatus
    stage: Stage
    cause: Cause | None
    reason: str


class Retrospective(msgspec.Struct, kw_only=True):
    v: int = VERSION
    run_id: str
    run_state: RunStatus
    ended: bool
    began_at: float | None
    """Epoch seconds: the first dispatch."""
    ended_at: float | None
    wall_s: float
    """From its beginning to its end, or to now."""
    idle_s: float
    """Of it: nothing ran."""
    counts: dict[TaskStatus, int]
    score: Score | None
    """The first forecast beside what came of it; null while the run goes on, or without one."""
    stages: tuple[StageTime, ...]
    time: TimeSpent
    money: Money
    causes: dict[Cause, int]
    """What recorded dispatches did not succeed for."""
    attempts_spent: int
    failed: tuple[Failed, ...]
    unchecked: dict[TaskId, str]
    """Completed, though a command of its test says nothing of its work: which, and why."""
    slowest: tuple[TaskTime, ...]
    critical_path: tuple[TaskTime, ...]
    """What the end waited for: the task that ended last, and before each the one it waited for."""


def retrospective_of(times: TimeBooks, books: CostBooks, *, now: float) -> Retrospective:
    state = times.state
    assert state is not None, "a journal begins with run_created"
    until = times.ended_at if times.ended_at is not None else now
    return Retrospective(
        run_id=state.run_id,
        run_state=state.status,
        ended=state.finalized is not None,
        began_at=times.began_at,
        ended_at=times.ended_at,
        wall_s=until - times.began_at if times.began_at is not None else 0.0,
        idle_s=times.idle_s,
        counts={status: n for status, n in state.counts.items() if n},
        unchecked={
            task.id: task.unchecked
            for task in state.tasks.values()
            if task.unchecked and task.status is TaskStatus.COMPLETED
        },
        score=score(state.forecast, finished_at=until, cost_usd=state.totals.cost_usd)
        if state.finalized is not None
        else None,
        stages=tuple(_stage_rows(times, books)),
        time=_time_spent(times),
        money=_money(state, books),
        causes=dict(times.causes.most_common()),
        attempts_spent=state.audit.attempts_spent,
        failed=tuple(
            Failed(
                task_id=task.id,
                state=task.status,
                stage=task.stage,
                cause=task.cause,
                reason=task.reason,
            )
            for task in state.tasks.values()
            if task.status in FAILED_STATES
        ),
        slowest=tuple(_slowest(state, times, until)),
        critical_path=tuple(_critical_path(state, times, until)),
    )


def _stage_rows(times: TimeBooks, books: CostBooks) -> list[StageTime]:
    rows = []
    for stage in Stage:
        took = sorted(times.stages.get(stage, ()))
        if not took:
            continue
        spent = Sums()
        for key, sums in books.books.items():
            if key.stage is stage:
                spent.add(sums)
        rows.append(
            StageTime(
                stage=stage,
                dispatches=len(took),
                total_s=sum(took),
                median_s=took[len(took) // 2],
                cost_usd=usd(spent.nanos),
            )
        )
    return rows


def _time_spent(times: TimeBooks) -> TimeSpent:
    def total(status: TaskStatus) -> float:
        return sum(each.spent_s[status] for each in times.tasks.values())

    return TimeSpent(
        running_s=total(TaskStatus.RUNNING),
        for_a_start_s=total(TaskStatus.READY),
        for_a_limit_s=total(TaskStatus.COOLING),
        for_a_person_s=total(TaskStatus.HELD),
        for_dependencies_s=total(TaskStatus.WAITING),
    )


def _money(state: RunState, books: CostBooks) -> Money:
    wastes = {waste: Sums() for waste in Waste}
    for key, sums in books.books.items():
        wastes[key.waste].add(sums)
    return Money(
        total_usd=usd(sum(sums.nanos for sums in wastes.values())),
        budget_usd=state.settings.budget_usd,
        waste={waste: usd(sums.nanos) for waste, sums in wastes.items()},
    )


def _slowest(state: RunState, times: TimeBooks, until: float) -> Sequence[TaskTime]:
    rows = [
        _task_time(state, task_id, each, until)
        for task_id, each in times.tasks.items()
        if each.spent_s[TaskStatus.RUNNING]
    ]
    return sorted(rows, key=lambda row: (-row.running_s, row.task_id))[:SLOWEST]


def _critical_path(state: RunState, times: TimeBooks, until: float) -> Sequence[TaskTime]:
    """Backwards from the task that completed last."""

    def ended(task_id: TaskId) -> float:
        return times.tasks[task_id].ended_at or 0.0

    done = [t.id for t in state.tasks.values() if t.status is TaskStatus.COMPLETED]
    path: list[TaskTime] = []
    last = max(done, key=ended, default=None)
    while last is not None:
        path.append(_task_time(state, last, times.tasks[last], until))
        needs = [need for need in state.tasks[last].depends_on if need in times.tasks]
        last = max(needs, key=ended, default=None)
    return path[::-1]


def _task_time(state: RunState, task_id: TaskId, times: TaskTimes, until: float) -> TaskTime:
    began = times.first_ready_at if times.first_ready_at is not None else until
    return TaskTime(
        task_id=task_id,
        span_s=(times.ended_at or until) - began,
        running_s=times.spent_s[TaskStatus.RUNNING],
        cost_usd=state.tasks[task_id].cost_usd,
    )
