"""Look at the state and say what is due now.

Level-triggered: the same state gives the same plan, so a restarted driver needs no
memory of what it was about to do.  Costs what it starts, never what there is.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from orchestrator.core.admission import PASSED_OVER_MAX, Admission, Bar
from orchestrator.core.bar import PAUSED_TASKS
from orchestrator.core.capacity import Capacity
from orchestrator.core.graph import best_first, is_live_cooling, is_live_ready
from orchestrator.core.model import RunStatus, Stage, TaskId, TaskStatus
from orchestrator.core.state import RunState, TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStage:
    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    max_budget_usd: float | None = None
    """What it reserves.  None: without bound."""

    def allows(self, prepared: "StartStage") -> bool:
        """Whether that one may start where this one is due: it asks for no more money."""
        usd, most = prepared.max_budget_usd, self.max_budget_usd
        is_affordable = most is None or (usd is not None and usd <= most)
        return is_affordable and replace(self, max_budget_usd=usd) == prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    starts: tuple[StartStage, ...] = ()
    finalize: RunStatus | None = None
    wake_at: float | None = None
    """Epoch seconds: when time alone makes something due."""
    limited_by: str = "nothing"
    """What keeps more from starting: ``tasks``, ``max_concurrent``, ``cooldown``, ``paused`` …"""
    stalled: str = ""
    """Why nothing can happen any more without a person; empty while something can."""


def plan(
    state: RunState, *, now: float, capacity: Capacity, preparing: Collection[TaskId] = ()
) -> Plan:
    """``preparing``: tasks whose next dispatch is being made ready; each holds a slot.

    ``capacity`` counts the children of every lane, the interactive ones included.
    """
    if state.finalized is not None:
        return Plan(limited_by="finished")
    if state.is_settled and not state.in_flight:
        return Plan(finalize=final_status(state), limited_by="finished")
    is_busy = bool(state.in_flight or preparing)
    if bar := barred(state):
        return Plan(limited_by=bar, stalled="" if is_busy else bar)
    starts, kept_back = _starts(state, now, capacity, preparing)
    wake_at = _earlier(kept_back.wake_at, _next_cooled(state, now))
    stalled = ""
    if not starts and not is_busy and wake_at is None:
        stalled = kept_back.limited_by
        if stalled == "tasks":
            stalled = _nothing_left(state)
    return Plan(starts=starts, wake_at=wake_at, limited_by=kept_back.limited_by, stalled=stalled)


def final_status(state: RunState) -> RunStatus:
    counts = state.counts
    if counts.get(TaskStatus.FAILED, 0) or counts.get(TaskStatus.CASCADE_BLOCKED, 0):
        return RunStatus.FAILED
    if counts.get(TaskStatus.REJECTED, 0):
        return RunStatus.COMPLETED_WITH_REJECTIONS
    return RunStatus.COMPLETED


def ready_tasks(state: RunState, now: float) -> list[TaskState]:
    """Every task that could start now, best first.  Costs what there is: for a person's eyes."""
    return list(_candidates(state, now))


def barred(state: RunState, *, is_driven: bool = True) -> str:
    """What keeps every task from starting until a person lifts it; or "".

    A stop is asked of a driver: where none lives it has been heard, and bars nobody's hands."""
    if is_driven and state.stop_requested is not None:
        return "stopping"
    if state.parked is not None:
        return "parked"
    return "paused" if state.paused is not None else ""


def _starts(
    state: RunState, now: float, capacity: Capacity, preparing: Collection[TaskId]
) -> tuple[tuple[StartStage, ...], Bar]:
    """What starts; of the rest, what keeps the best from starting, until the first may."""
    starts: list[StartStage] = []
    bars: list[Bar] = []
    admission = Admission.of(state, now, capacity, preparing)
    free = capacity.in_all.limit - len(state.in_flight) - len(preparing)
    passed_over = 0
    for task in _candidates(state, now):
        if task.id in preparing:
            continue
        if len(starts) >= free:
            bars.append(Bar(capacity.in_all.limited_by, wake_at=capacity.in_all.wake_at))
            break
        match admission.admit(task):
            case Bar() as bar:
                bars.append(bar)
                passed_over += not bar.is_lasting
                if bar.is_for_all or passed_over >= PASSED_OVER_MAX:
                    break
            case granted:
                starts.append(
                    StartStage(
                        task_id=task.id,
                        stage=task.stage,
                        attempt=task.attempt,
                        dispatch=task.dispatches.get((task.stage, task.attempt), 0) + 1,
                        max_budget_usd=granted.max_budget_usd,
                    )
                )
    if not bars and state.counts.get(TaskStatus.COOLING, 0) and admission.allowance.is_cooling:
        bars.append(admission.allowance.rest)
    first = bars[0] if bars else Bar(PAUSED_TASKS if state.set_aside else "tasks")
    wakes = [bar.wake_at for bar in bars if bar.wake_at is not None]
    return tuple(starts), replace(first, wake_at=min(wakes, default=None))


def _candidates(state: RunState, now: float) -> Iterator[TaskState]:
    """Tasks that may start, best first: those that have cooled down, then the ready ones."""
    seen: set[TaskId] = set()
    for item in best_first(state.cooling):
        if item[0] > now:
            break
        if is_live_cooling(state, item) and item[1] not in seen:
            seen.add(item[1])
            yield state.tasks[item[1]]
    for entry in best_first(state.ready):
        if is_live_ready(state, entry) and entry[3] not in seen:
            seen.add(entry[3])
            yield state.tasks[entry[3]]


def _next_cooled(state: RunState, now: float) -> float | None:
    for item in best_first(state.cooling):
        if item[0] > now and is_live_cooling(state, item):
            return item[0]
    return None


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _nothing_left(state: RunState) -> str:
    if state.missing:
        return f"waiting for tasks that are not added: {', '.join(sorted(state.missing))}"
    held = [task.id for task in state.tasks.values() if task.status is TaskStatus.HELD]
    return f"held for a person: {', '.join(held)}" if held else "there are no tasks"
