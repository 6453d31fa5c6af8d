"""What one plan may still give out, task by task: why one must wait, what one reserves.

Made anew for each plan.  Invariant: what admit() has granted is held by it, so that the
starts of one plan together never take more than there is.
"""

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.core.allowance import Allowance
from orchestrator.core.bar import LANE, PAUSED_TASKS, Bar as Bar
from orchestrator.core.budget import Purse, used_up
from orchestrator.core.capacity import Capacity
from orchestrator.core.model import Mode, Stage, TaskId, lane_of
from orchestrator.core.state import RunState, TaskState

PASSED_OVER_MAX = 100
"""How many ready tasks that must wait are looked past for one that need not, per plan."""


@dataclass(frozen=True, slots=True)
class Grant:
    max_budget_usd: float | None
    """What the dispatch reserves, and its child is told.  None: without bound."""


def paused_part(state: RunState, task: TaskState, mode: Mode) -> Bar | None:
    """What a person has paused of the run that keeps the task from starting."""
    if task.paused is not None:
        return Bar(PAUSED_TASKS, is_lasting=True)
    lane = lane_of(task.stage, mode)
    return Bar(f"{LANE}{lane}") if lane in state.settings.paused_lanes else None


@dataclass(slots=True, kw_only=True)
class Admission:
    state: RunState
    now: float
    purse: Purse
    allowance: Allowance
    mode: Mode

    @classmethod
    def of(
        cls,
        state: RunState,
        now: float,
        capacity: Capacity | None = None,
        preparing: Collection[TaskId] = (),
        mode: Mode = Mode.HEADLESS,
    ) -> "Admission":
        """``mode``: who would do what is started."""
        allowance = Allowance.of(state, now, capacity, preparing, mode)
        return cls(state=state, now=now, purse=Purse.of(state), allowance=allowance, mode=mode)

    def admit(self, task: TaskState) -> Grant | Bar:
        """For the task's present stage."""
        bar = self.allowance.bar(task) or paused_part(self.state, task, self.mode)
        if bar is not None:
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
