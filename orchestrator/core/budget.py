"""The budgets as a reservation ledger: what is spent, what is promised, what is left.

Invariant: what a start reserves is within what is left of the run's, the task's and the
stage's budget, and its child is told that figure as its own limit: so spent + reserved never
exceeds a budget but by the turn with which a child passes its limit.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.core.choice import model_of
from orchestrator.core.model import Stage
from orchestrator.core.state import RunState, TaskState

EXPECTED_USD: Mapping[Stage, float] = {
    Stage.SCOPE: 1.0,
    Stage.IMPLEMENT: 4.0,
    Stage.REVIEW: 1.0,
}
"""What a dispatch is taken to cost while nothing is known of its kind of stage."""
EXPECTED_SHARE = 0.9
"""The quantile of what was seen."""
RESERVATION_USD_MIN = 0.01
"""Less than this starts nothing."""
DOUBLED_MAX = 16


class Limit(NamedTuple):
    """A budget that binds a task's present stage."""

    name: str
    """``task_budget:<task>`` or ``stage_budget:<task>/<stage>``."""
    budget_usd: float
    spent_usd: float

    @property
    def left_usd(self) -> float:
        return self.budget_usd - self.spent_usd

    @property
    def is_used_up(self) -> bool:
        return self.left_usd < RESERVATION_USD_MIN


@dataclass(slots=True, kw_only=True)
class Purse:
    """What new starts of one plan may still reserve of the run's budget.  None: it has none."""

    left_usd: float | None
    is_spent: bool = False
    """Also when all that is reserved comes back unused, nothing can start."""

    @classmethod
    def of(cls, state: RunState) -> "Purse":
        budget = state.settings.budget_usd
        if budget is None:
            return cls(left_usd=None)
        unspent_usd = budget - state.totals.cost_usd
        return cls(
            left_usd=unspent_usd - state.totals.reserved_usd,
            is_spent=unspent_usd < RESERVATION_USD_MIN,
        )

    @property
    def is_empty(self) -> bool:
        return self.left_usd is not None and self.left_usd < RESERVATION_USD_MIN

    def reserve(self, state: RunState, task: TaskState) -> float | None:
        """What the task's next dispatch may spend, taken out.  None: without bound."""
        most = [limit.left_usd for limit in own_limits(state, task)]
        if self.left_usd is not None:
            most.append(self.left_usd)
        if not most:
            return None
        granted = _whole_micros(min(expected_usd(state, task), *most))
        if self.left_usd is not None:
            self.left_usd -= granted
        return granted


def expected_usd(state: RunState, task: TaskState) -> float:
    """Of the task's next dispatch.  Doubled each time that the attempt has used up what it had,
    so that a long stage is not cut into many pieces."""
    stage = task.stage
    seen = state.history.cost_usd(stage, model_of(state, task, stage), EXPECTED_SHARE)
    usd = max(seen or EXPECTED_USD[stage], RESERVATION_USD_MIN)
    return float(usd * 2.0 ** min(task.extensions, DOUBLED_MAX))


def own_limits(state: RunState, task: TaskState) -> Iterator[Limit]:
    """The budgets of the task alone: for all its rounds, and for its stage in this round."""
    usd = task_budget_usd(state, task)
    if usd is not None:
        yield Limit(f"task_budget:{task.id}", usd, task.cost_usd)
    usd = stage_budget_usd(state, task.stage)
    if usd is not None:
        spent_usd = task.stage_usd.get(task.stage, 0.0)
        yield Limit(f"stage_budget:{task.id}/{task.stage}", usd, spent_usd)


def used_up(state: RunState, task: TaskState) -> Limit | None:
    """The budget of its own that keeps the task from starting."""
    if task.stage.is_deterministic:
        return None
    return next((limit for limit in own_limits(state, task) if limit.is_used_up), None)


def task_budget_usd(state: RunState, task: TaskState) -> float | None:
    """For all of its stages, in all of its rounds."""
    return state.settings.task_budget_usd if task.budget_usd is None else task.budget_usd


def stage_budget_usd(state: RunState, stage: Stage) -> float | None:
    """For all calls of this stage of one task, in one round."""
    settings = state.settings
    told = {
        Stage.SCOPE: settings.scope_budget_usd,
        Stage.IMPLEMENT: settings.implement_budget_usd,
        Stage.REVIEW: settings.review_budget_usd,
    }.get(stage)
    return state.project.stage(stage).max_budget_usd if told is None else told


def left_usd(state: RunState) -> float | None:
    """The most that can still be spent, what is reserved included; None: without bound.

    One turn of each child may pass its reservation.
    """
    if state.finalized is not None:
        return 0.0
    budget = state.settings.budget_usd
    of_run = math.inf if budget is None else max(0.0, budget - state.totals.cost_usd)
    left = min(of_run, _left_of_tasks(state))
    # What is reserved is as good as gone, also where a budget was lowered since.
    return None if math.isinf(left) else max(left, state.totals.reserved_usd)


def max_possible_usd(state: RunState) -> float | None:
    """The most that the run can come to; None: without bound."""
    left = left_usd(state)
    return None if left is None else state.totals.cost_usd + left


def _left_of_tasks(state: RunState) -> float:
    return math.fsum(
        _left_of_task(state, task) for task in state.tasks.values() if not task.status.is_terminal
    )


def _left_of_task(state: RunState, task: TaskState) -> float:
    budget = task_budget_usd(state, task)
    of_task = math.inf if budget is None else max(0.0, budget - task.cost_usd)
    of_stages = 0.0
    for stage in task.pipeline.stages:
        if stage.is_deterministic or (stage is Stage.SCOPE and task.stage not in _UP_TO_SCOPE):
            continue
        of_stage = stage_budget_usd(state, stage)
        spent_usd = task.stage_usd.get(stage, 0.0)
        of_stages += math.inf if of_stage is None else max(0.0, of_stage - spent_usd)
    return min(of_task, of_stages)


_UP_TO_SCOPE = frozenset({Stage.INTAKE, Stage.SCOPE})
"""Later stages may send a task back to implement, and never to scope."""


def _whole_micros(usd: float) -> float:
    """Down to what a child is told exactly."""
    return math.floor(usd * 1e6) / 1e6
