"""What it would take to finish: the stages still to do, at what such stages have cost.

Invariant: an estimate for a person to read.  Nothing is admitted or refused by it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.core.choice import model_of
from orchestrator.core.history import Sample
from orchestrator.core.model import Outcome, Stage
from orchestrator.core.state import RunState
from orchestrator.core.words import usd_text

ROOM_USD_MIN = 0.05
"""What a budget that is raised gives at least: more than a stage has to reserve."""

_DONE = frozenset({Outcome.ADVANCED, Outcome.COMPLETED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    usd: float
    unknown: tuple[Stage, ...]
    """Stages still to do of which nothing was ever seen: ``usd`` is without them."""

    @property
    def is_known(self) -> bool:
        return not self.unknown

    def in_words(self) -> str:
        kinds = " and ".join(self.unknown)
        if self.usd and self.unknown:
            more = f"more than {usd_text(self.usd)} USD"
            return f"to finish takes {more} (nothing is known yet of {kinds})"
        if self.unknown:
            return f"what it takes to finish is not known: no {kinds} has been seen yet"
        return f"to finish takes about {usd_text(self.usd)} USD more, by what its stages have cost"


def to_finish(state: RunState) -> Remainder:
    """Costs what there is: for a pause, and for a person's eyes."""
    price: dict[tuple[Stage, str], float | None] = {}
    unknown: set[Stage] = set()
    usd = 0.0
    for task in state.tasks.values():
        if task.status.is_terminal:
            continue
        stages = task.pipeline.stages
        for stage in stages[stages.index(task.stage) :]:
            if stage.is_deterministic:
                continue
            key = (stage, model_of(state, task, stage))
            if key not in price:
                price[key] = _until_done_usd(state.history.of(*key))
            found = price[key]
            if found is None:
                unknown.add(stage)
            usd += found or 0.0
    return Remainder(usd=usd, unknown=tuple(stage for stage in Stage if stage in unknown))


def raised_usd(budget_usd: float, spent_usd: float, remainder_usd: float | None) -> float:
    """A budget to go on with: enough by what is known, otherwise twice as much.  Above both, and
    by more than a stage reserves at least."""
    most = max(budget_usd, spent_usd)
    if remainder_usd is None:
        return _up_to_a_cent(max(1.0, 2 * most))
    return _up_to_a_cent(max(spent_usd + remainder_usd, most + ROOM_USD_MIN))


def in_usd(amount: float) -> str:
    """``20``, ``1.35``, ``0.0355``: as an option takes it."""
    return usd_text(amount).removesuffix(".00")


def _up_to_a_cent(usd: float) -> float:
    return math.ceil(round(100 * usd, 6)) / 100


def _until_done_usd(samples: Sequence[Sample]) -> float | None:
    """With what failed on the way: all that was paid, over what came of it."""
    paid = math.fsum(sample.cost_usd for sample in samples)
    done = sum(sample.outcome in _DONE for sample in samples)
    return paid / (done or len(samples)) if samples else None
