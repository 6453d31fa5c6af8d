"""What one plan may still give out, task by task: why one must wait, what one reserves.

Made anew for each plan.  Invariant: what admit() has granted is held by it, so that the
starts of one plan together never take more than there is.
"""

from dataclasses import dataclass

from orchestrator.core.budget import Purse
from orchestrator.core.state import RunState, TaskState

PASSED_OVER_MAX = 100
"""How many ready tasks that must wait are looked past for one that need not, per plan."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a ready task does not start now."""

    limited_by: str
    """``budget``, ``task_budget:<task>``, ``usage_window:seven_day_opus``, ``lane:<lane>`` …"""
    is_for_all: bool = False
    """Nothing that is worse placed can start either."""
    wake_at: float | None = None
    """Epoch seconds: when time alone lifts it."""


@dataclass(frozen=True, slots=True)
class Grant:
    max_budget_usd: float | None
    """What the dispatch reserves, and its child is told.  None: without bound."""


@dataclass(slots=True, kw_only=True)
class Admission:
    state: RunState
    now: float
    purse: Purse

    @classmethod
    def of(cls, state: RunState, now: float) -> "Admission":
        return cls(state=state, now=now, purse=Purse.of(state))

    def admit(self, task: TaskState) -> Grant | Bar:
        """For the task's present stage."""
        if task.stage.is_deterministic:
            return Grant(None)
        if self.purse.is_empty:
            return Bar("budget", is_for_all=True)
        wanted_usd = self.state.project.stage(task.stage).max_budget_usd
        return Grant(self.purse.reserve(wanted_usd))
