"""What the account still lets one plan start: dispatches with a model, and what feeds them.

A limit that is waited out, a full window, a canary that is out, a lane that is paused: they
bar stages with a model and no others.  A deterministic stage costs no tokens, so it goes on; but
no more tasks are taken in than can wait for the account with all slots filled at its reset.
"""

from collections.abc import Collection
from dataclasses import dataclass

from orchestrator.core.bar import LANE, Bar
from orchestrator.core.capacity import Capacity
from orchestrator.core.choice import model_of
from orchestrator.core.model import Mode, Stage, TaskId, TaskStatus, lane_of
from orchestrator.core.rates import does_not_fit, expected_usd
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.windows import bar_name, bar_of_model, ends_at


@dataclass(slots=True, kw_only=True)
class Allowance:
    state: RunState
    now: float
    left: int
    """Of dispatches with a model."""
    rest: Bar
    """What keeps those back for which nothing is left."""
    stock: int
    """How many tasks may stand in line for the account before no more are taken in."""
    waiting: int = 0
    """How many do, as far as this plan has looked."""
    promised_usd: float = 0.0

    @classmethod
    def of(
        cls,
        state: RunState,
        now: float,
        capacity: Capacity | None = None,
        preparing: Collection[TaskId] = (),
        mode: Mode = Mode.HEADLESS,
    ) -> "Allowance":
        """Without a capacity nothing but the account's limit counts, and what a person paused."""
        leases = state.in_flight.values()
        stages = [(lease.stage, lease.model) for lease in leases]
        for task in (state.tasks[name] for name in preparing):
            stages.append((task.stage, model_of(state, task, task.stage)))
        out = sum(not stage.is_deterministic for stage, _ in stages)
        limit = _UNLIMITED if capacity is None else capacity.limit
        stock = _UNLIMITED if capacity is None else capacity.in_all.limit
        left, rest = limit - out, Bar("max_concurrent")
        if capacity is not None:
            rest = Bar(capacity.limited_by, wake_at=capacity.wake_at)
        if (lane := lane_of(Stage.IMPLEMENT, mode)) in state.settings.paused_lanes:
            left, rest = 0, Bar(f"{LANE}{lane}")
        elif state.cooldown_until is not None and state.cooldown_until > now:
            left, rest = 0, Bar("cooldown", wake_at=state.cooldown_until)
        elif state.canary and left > 0:
            left, rest = max(0, 1 - out), Bar("canary")
        made = cls(state=state, now=now, left=left, rest=rest, stock=stock)
        if left <= 0:
            made.waiting = len(stages) - out + state.counts.get(TaskStatus.COOLING, 0)
        if state.window_rates:
            made.promised_usd = sum(expected_usd(state, stage, model) for stage, model in stages)
        return made

    @property
    def is_cooling(self) -> bool:
        """A limit of the account's is waited out."""
        return self.state.cooldown_until is not None and self.state.cooldown_until > self.now

    def bar(self, task: TaskState) -> Bar | None:
        """What keeps the task's present stage from starting; None: the account does not."""
        if task.stage.is_deterministic:
            if task.stage is Stage.INTAKE and 0 < self.waiting >= self.stock:
                return self.rest
            self.waiting += self.left <= 0
            return None
        bar = self._bar_of_model(task)
        self.waiting += bar is not None
        return bar

    def take(self, task: TaskState) -> None:
        """It starts."""
        if not task.stage.is_deterministic:
            self.left -= 1
        if not task.stage.is_deterministic and self.state.window_rates:
            model = model_of(self.state, task, task.stage)
            self.promised_usd += expected_usd(self.state, task.stage, model)

    def _bar_of_model(self, task: TaskState) -> Bar | None:
        if self.left <= 0:
            return self.rest
        bar = bar_of_model(self.state, model_of(self.state, task, task.stage), self.now)
        if bar is not None:
            return bar
        window = does_not_fit(self.state, task, self.now, promised_usd=self.promised_usd)
        return None if window is None else Bar(bar_name(window), wake_at=ends_at(window))


_UNLIMITED = 1_000_000
