"""Who watches the circuit breakers: what they are there for is counted once more, by the children's
own conduct, and what may start after one has tripped.

Nothing here rests on the state that the fold keeps of them, so what a restart forgets is seen.
"""

from dataclasses import dataclass, field

from orchestrator.core.breakers import WORKS_MIN
from orchestrator.core.budget import EXPECTED_USD
from orchestrator.core.events import (
    KnownEvent,
    LeaseSuperseded,
    RunPaused,
    RunUnpaused,
    StageDispatched,
    StageRecorded,
    TaskAbandoned,
    Unknown,
)
from orchestrator.core.model import Cause, Outcome
from orchestrator.core.state import RunState
from tests.simulation.promises import Promise, Violation


@dataclass
class Fuses:
    is_blown: bool = False
    """From a pause by a breaker until a model's success that was begun after it."""
    before: set[str] = field(default_factory=set)
    """Dispatches that were out then: they count neither way."""
    out: dict[str, str] = field(default_factory=dict)
    """Dispatch with a model -> its task."""
    idle: list[str] = field(default_factory=list)
    """Tasks whose clients did nothing, in a row."""
    dear: int = 0
    """Attempts in a row that each cost too much, and none beside them that did not."""
    has_others: bool = False

    def look(self, state: RunState, event: KnownEvent | Unknown, conduct: str) -> None:
        match event:
            case RunPaused(breaker=breaker) if breaker:
                self.is_blown, self.before = True, set(self.out)
                self._begin_anew()
            case RunUnpaused():
                self._begin_anew()
            case StageDispatched() if not event.stage.is_deterministic:
                self._may_start(state, event)
                self.out[event.work_item_id] = event.task_id
            case StageRecorded() if not event.stage.is_deterministic:
                self.out.pop(event.work_item_id, None)
                if event.work_item_id not in self.before:
                    self._count(event, conduct)
            case TaskAbandoned(work_item_id=str(key)) | LeaseSuperseded(work_item_id=key):
                self.out.pop(key, None)
            case _:
                # A dispatch of which nothing had begun is taken back.
                is_out = {lease.work_item_id for lease in state.in_flight.values()}
                self.out = {key: task for key, task in self.out.items() if key in is_out}
        if state.is_settled:
            self._begin_anew()  # there was nothing left to pause

    def _begin_anew(self) -> None:
        self.idle, self.dear, self.has_others = [], 0, False

    def _may_start(self, state: RunState, event: StageDispatched) -> None:
        key = event.work_item_id
        if self.is_blown and self.out:
            raise Violation(
                Promise.BREAKERS, f"{key} starts beside {', '.join(self.out)}: one is to"
            )
        if len(self.idle) >= state.settings.zero_work_max and len(set(self.idle)) > 1:
            raise Violation(
                Promise.BREAKERS, f"{key} starts after {len(self.idle)} that did nothing"
            )
        if self.dear >= WORKS_MIN and not self.has_others:
            raise Violation(
                Promise.BREAKERS, f"{key} starts after {self.dear} that cost far too much"
            )

    def _count(self, event: StageRecorded, conduct: str) -> None:
        cost = event.cost
        if event.cause is None:
            self.is_blown = False
        if conduct == "idle" and event.cause is Cause.INVALID_OUTPUT:
            self.idle.append(event.task_id)
        elif event.cause is None or (cost is not None and cost.output_tokens):
            self.idle = []
        if cost is None or not cost.cost_usd:
            return
        is_dear = cost.cost_usd >= 4 * EXPECTED_USD[event.stage]
        self.has_others = self.has_others or not is_dear
        self.dear += is_dear and event.outcome is not Outcome.AGAIN
