"""What a run is likely to come to: many futures of it, read together.

Pure, and seeded by the run and its last event: asked twice, it says the same.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from orchestrator.core.events import ForecastMade
from orchestrator.core.experience import Experience
from orchestrator.core.fold import undisturbed
from orchestrator.core.futures import Copies, Drive, Life, live_through
from orchestrator.core.guess import Guess
from orchestrator.core.model import TaskId, TaskStatus
from orchestrator.core.state import RunState

FUTURES_MAX = 200
FUTURES_MIN = 8
"""From fewer, a tenth and nine tenths cannot be read."""
STAGES_PER_ANSWER = 80_000
"""Stages lived through for one answer: a few seconds."""
SHARES = (0.1, 0.5, 0.9)
MORE_SLOTS, MORE_USD = 1, 20.0

Spread = tuple[float, float, float]
"""p10, p50, p90."""


@dataclass(frozen=True, slots=True)
class Future:
    """What is kept of one."""

    life: Life
    cost_usd: float
    completed: int
    unfinished: dict[TaskId, str]
    """Tasks that were not completed, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Futures:
    """At least one, of one run, from one moment on."""

    now: float
    every: Sequence[Future]
    experience: Experience

    @property
    def finish_at(self) -> Spread:
        return spread([future.life.ended_at for future in self.every])

    @property
    def cost_usd(self) -> Spread:
        return spread([future.cost_usd for future in self.every])

    @property
    def completed(self) -> Spread:
        return spread([float(future.completed) for future in self.every])

    def as_event(self) -> ForecastMade:
        return ForecastMade(
            at=self.now,
            finish_at=self.finish_at,
            cost_usd=self.cost_usd,
            samples=len(self.every),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What something else would make of the same futures: the same dice, drawn again."""

    what: str
    """``slot`` or ``budget``."""
    by: float
    sooner_s: float
    """Median; negative: later."""
    dearer_usd: float
    more_completed: float
    """Mean."""
    futures: int


Enough = Callable[[], bool]


def futures_that_fit(state: RunState, stages_max: int = STAGES_PER_ANSWER) -> int:
    """How many futures an answer about this run is read from."""
    left = sum(
        len(task.pipeline.stages) for task in state.tasks.values() if not task.status.is_terminal
    )
    return max(1, min(FUTURES_MAX, stages_max // max(left, 1)))


def foresee(
    state: RunState, *, now: float, drive: Drive, count: int, enough: Enough = lambda: False
) -> Futures:
    """``enough``: asked after each future whether the time for more is over."""
    copies, experience, seed = Copies(state), Experience(state.history), seed_of(state)
    every: list[Future] = []
    with undisturbed():
        for number in range(count):
            copy = copies.one()
            life = live_through(copy, Guess(experience, seed, number), now=now, drive=drive)
            every.append(_seen(copy, life))
            if enough():
                break
    return Futures(now=now, every=every, experience=experience)


def what_if(state: RunState, base: Futures, *, drive: Drive, count: int) -> list[Change]:
    """One slot more; and more money, where a budget is set."""
    more_slots = replace(drive, max_concurrent=drive.max_concurrent + MORE_SLOTS)
    found = [("slot", float(MORE_SLOTS), state, more_slots)]
    if state.settings.budget_usd is not None:
        found.append(("budget", MORE_USD, _with_budget(state, MORE_USD), drive))
    return [
        _change(what, by, base, foresee(other, now=base.now, drive=driven, count=count))
        for what, by, other, driven in found
    ]


def _change(what: str, by: float, base: Futures, other: Futures) -> Change:
    pairs = list(zip(base.every, other.every, strict=False))
    return Change(
        what=what,
        by=by,
        sooner_s=quantile([a.life.ended_at - b.life.ended_at for a, b in pairs], 0.5),
        dearer_usd=quantile([b.cost_usd - a.cost_usd for a, b in pairs], 0.5),
        more_completed=sum(b.completed - a.completed for a, b in pairs) / len(pairs),
        futures=len(pairs),
    )


def seed_of(state: RunState) -> int:
    return zlib.crc32(state.run_id.encode()) << 32 | state.seq


def _with_budget(state: RunState, more_usd: float) -> RunState:
    """The same run with another budget; it shares everything else, and is only looked at."""
    budget_usd = (state.settings.budget_usd or 0.0) + more_usd
    settings = msgspec.structs.replace(state.settings, budget_usd=budget_usd)
    return replace(state, settings=settings)


def spread(values: Sequence[float]) -> Spread:
    low, middle, high = (quantile(values, share) for share in SHARES)
    return low, middle, high


def quantile(values: Sequence[float], share: float) -> float:
    """Such that another of the same kind lies below it with probability ``share``, as far as
    few values can say that."""
    ranked = sorted(values)
    at = min(max(share * (len(ranked) + 1) - 1.0, 0.0), len(ranked) - 1.0)
    below = int(at)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (at - below) * (ranked[above] - ranked[below])


def _seen(state: RunState, life: Life) -> Future:
    unfinished = {
        task.id: _why(task.status, life)
        for task in state.tasks.values()
        if task.status is not TaskStatus.COMPLETED
    }
    return Future(
        life=life,
        cost_usd=state.totals.cost_usd,
        completed=state.counts.get(TaskStatus.COMPLETED, 0),
        unfinished=unfinished,
    )


def _why(status: TaskStatus, life: Life) -> str:
    match status:
        case TaskStatus.FAILED:
            return "failure"
        case TaskStatus.CASCADE_BLOCKED:
            return "blocked by a failure"
        case TaskStatus.HELD:
            return "held for a person"
        case TaskStatus.REJECTED | TaskStatus.SUPERSEDED:
            return "given up"
        case _:
            return life.stalled or "not reached"
