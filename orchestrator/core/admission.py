"""What one plan may still give out, task by task: why one must wait, what one reserves.

Made anew for each plan.  Invariant: what admit() has granted is held by it, so that the
starts of one plan together never take more than there is.
"""

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.core.allowance import Allowance
from orchestrator.core.bar import Bar as Bar
from orchestrator.core.budget import Purse, used_up
from orchestrator.core.capacity import Capacity
from orchestrator.core.model import Stage, TaskId
from orchestrator.core.state import RunState, TaskState

PASSED_OVER_MAX = 100
"""How many ready tasks that must wait are looked past for one that need not, per plan."""


@dataclass(frozen=True, slots=True)
class Grant:
    max_budget_usd: float | None
    """What the dispatch reserves, and its child is told.  None: without bound."""


@dataclass(slots=True, kw_only=True)
class Admission:
    state: RunState
    now: float
    purse: Purse
    allowance: Allowance

    @classmethod
    def of(
        cls,
        state: RunState,
        now: float,
        capacity: Capacity | None = None,
        preparing: Collection[TaskId] = (),
    ) -> "Admission":
        allowance = Allowance.of(state, now, capacity, preparing)
        return cls(state=state, now=now, purse=Purse.of(state), allowance=allowance)

    def admit(self, task: TaskState) -> Grant | Bar:
        """For the task's present stage."""
        if (bar := self.allowance.bar(task)) is not None:
            return bar
        match self._pay(task):
            case Grant() as grant:
                self.allowance.take(task)
                return grant
            case bar:
                return bar

    def _pay(self, task: TaskState) -> Grant | Bar:
        if task.stage.is_deterministic:
            # What was paid for is brought to its end; nothing new is begun.
            is_vain = task.stage is Stage.INTAKE and self.purse.is_spent
            return Bar("budget") if is_vain else Grant(None)
        if self.purse.is_empty:
            return Bar("budget")
        if (limit := used_up(self.state, task)) is not None:
            return Bar(limit.name, is_lasting=True)
        return Grant(self.purse.reserve(self.state, task))
