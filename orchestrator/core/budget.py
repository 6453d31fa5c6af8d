"""The budget as a reservation ledger: what is spent, what is promised, what is left.

Invariant: spent + reserved never exceeds the budget, because a start is given no
more than what is left, and its child is told that figure as its own limit.
"""

from dataclasses import dataclass

from orchestrator.core.state import RunState

RESERVATION_USD_DEFAULT = 5.0
"""What a model stage reserves where its project sets no ``max_budget_usd``."""
RESERVATION_USD_MIN = 0.05
"""Less than this starts nothing: the first turn alone would pass it."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What new starts of one plan may still reserve.  None: no budget is set."""

    left_usd: float | None

    @classmethod
    def of(cls, state: RunState) -> "Purse":
        budget = state.settings.budget_usd
        if budget is None:
            return cls(left_usd=None)
        return cls(left_usd=budget - state.totals.cost_usd - state.totals.reserved_usd)

    @property
    def is_empty(self) -> bool:
        return self.left_usd is not None and self.left_usd < RESERVATION_USD_MIN

    def reserve(self, wanted_usd: float | None) -> float | None:
        """What the next start may spend.  None: without bound."""
        if self.left_usd is None:
            return wanted_usd
        granted = min(wanted_usd or RESERVATION_USD_DEFAULT, self.left_usd)
        self.left_usd -= granted
        return granted


def max_possible_usd(state: RunState) -> float | None:
    """The most that can still come of it: one turn of each child may pass its reservation."""
    budget = state.settings.budget_usd
    if state.finalized is not None:
        return state.totals.cost_usd
    return None if budget is None else max(budget, state.totals.cost_usd)
