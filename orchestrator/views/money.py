"""What a run has cost, what it may still cost, and whom a budget keeps waiting: for status."""

import msgspec

from orchestrator.core.budget import left_usd, max_possible_usd, used_up
from orchestrator.core.model import Stage, TaskId, TaskStatus
from orchestrator.core.remainder import to_finish
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.words import usd_text


class Cost(msgspec.Struct, kw_only=True):
    total_usd: float
    reserved_usd: float
    budget_usd: float | None
    left_usd: float | None
    """The most that can still be spent, what is reserved included, by all budgets; null: without
    bound.  Each child may pass what it reserved by one turn."""
    max_possible_usd: float | None
    """What the run comes to then; null: without bound."""
    to_finish_usd: float | None
    """What the stages still to do would cost, by what such stages have cost; null: not known."""
    by_stage: dict[Stage, float]
    by_task: dict[TaskId, float]
    cache_hit_rate: float | None
    metered: bool


class UsedUp(msgspec.Struct, kw_only=True):
    """A budget of the task's own, or of its stage, that keeps it waiting."""

    name: str
    """``task_budget:<task>`` or ``stage_budget:<task>/<stage>``."""
    budget_usd: float
    spent_usd: float

    @property
    def in_words(self) -> str:
        what = "its stage's" if self.name.startswith("stage_budget:") else "its"
        spent = f"{usd_text(self.spent_usd)} of {usd_text(self.budget_usd)} USD"
        return f"{what} budget is used up: {spent}"


def cost(state: RunState) -> Cost:
    totals = state.totals
    remainder = to_finish(state)
    prompt_tokens = totals.input_tokens + totals.cache_read_tokens + totals.cache_write_tokens
    return Cost(
        total_usd=rounded_usd(totals.cost_usd),
        reserved_usd=rounded_usd(totals.reserved_usd),
        budget_usd=state.settings.budget_usd,
        left_usd=_or_none(left_usd(state)),
        max_possible_usd=_or_none(max_possible_usd(state)),
        to_finish_usd=rounded_usd(remainder.usd) if remainder.is_known else None,
        by_stage={stage: rounded_usd(usd) for stage, usd in totals.by_stage.items()},
        by_task={t.id: rounded_usd(t.cost_usd) for t in state.tasks.values() if t.cost_usd},
        cache_hit_rate=round(totals.cache_read_tokens / prompt_tokens, 4)
        if prompt_tokens
        else None,
        metered=totals.metered,
    )


def budget_used_up(state: RunState, task: TaskState) -> UsedUp | None:
    is_to_start = task.status in {TaskStatus.READY, TaskStatus.COOLING}
    limit = used_up(state, task) if is_to_start else None
    if limit is None:
        return None
    return UsedUp(
        name=limit.name, budget_usd=limit.budget_usd, spent_usd=rounded_usd(limit.spent_usd)
    )


def _or_none(value: float | None) -> float | None:
    return None if value is None else rounded_usd(value)


def rounded_usd(value: float) -> float:
    """Sums of cents in binary: six digits are a thousandth of the smallest price."""
    return round(value, 6)
