"""What stages took and cost before: in this run, and in past runs of the project.

Invariant: bounded.  Of each kind of stage the last SAMPLES_MAX are kept, so that a figure
costs the same after ten tasks and after ten thousand.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from orchestrator.core.model import Outcome, Record, Stage

SAMPLES_MAX = 64
"""Per stage and model.  The p90 of fewer than some twenty is a guess, and said to be one."""
MEMORY_SAMPLES_MIN = 10
"""Fewer say too little of what a child of any kind needs."""


class Sample(Record, frozen=True, kw_only=True):
    """One attempt that came to a verdict, with all of the dispatches that it took."""

    stage: Stage
    model: str = ""
    """Empty for a deterministic stage."""
    outcome: Outcome
    duration_s: float
    cost_usd: float = 0.0
    peak_memory_bytes: int = 0
    attempt: int = 1
    """Of its stage; of one after implement, which of the works it was done on."""
    task: str = ""
    """Whose: what samples of one task share.  Of a past run, ``<run>/<task>``."""


@dataclass(slots=True, kw_only=True)
class History:
    """``samples``: stage and model -> oldest first, past runs' before this run's."""

    samples: dict[tuple[Stage, str], list[Sample]] = field(default_factory=dict)
    own: dict[tuple[Stage, str], int] = field(default_factory=dict)
    """How many of each kind are this run's, among those that are kept."""

    def load(self, past: Iterable[Sample]) -> None:
        """Put other runs' samples, oldest first, before this run's own."""
        mine = self.own_samples()
        self.samples.clear()
        self.own.clear()
        for sample in past:
            self._keep(sample)
        for sample in mine:
            self.add(sample)

    def add(self, sample: Sample) -> None:
        """One of this run's."""
        key = self._keep(sample)
        own = self.own.get(key, 0)
        if own < SAMPLES_MAX:
            self.own[key] = own + 1

    def past_samples(self) -> list[Sample]:
        """Other runs', as far as this run's own have not taken their place."""
        return [
            sample
            for key, kept in self.samples.items()
            for sample in kept[: len(kept) - self.own.get(key, 0)]
        ]

    def own_samples(self) -> list[Sample]:
        return [
            sample
            for key, kept in self.samples.items()
            if (own := self.own.get(key, 0))
            for sample in kept[-own:]
        ]

    def _keep(self, sample: Sample) -> tuple[Stage, str]:
        """Returns its kind."""
        key = (sample.stage, sample.model)
        kept = self.samples.get(key)
        if kept is None:
            kept = self.samples[key] = []
        kept.append(sample)
        if len(kept) > SAMPLES_MAX:
            del kept[0]
        return key

    def of(self, stage: Stage, model: str) -> list[Sample]:
        """Of this stage with this model; where there is none, of the stage with any."""
        found = self.samples.get((stage, model))
        if found:
            return found
        return [s for (other, _), kept in self.samples.items() if other is stage for s in kept]

    def cost_usd(self, stage: Stage, model: str, share: float) -> float | None:
        """The quantile of what a dispatch cost; None without any."""
        return quantile([s.cost_usd for s in self.of(stage, model)], share)

    def memory_bytes(self, share: float) -> int | None:
        """The quantile of what dispatches of all kinds had resident at their peak."""
        peaks = [s.peak_memory_bytes for kept in self.samples.values() for s in kept]
        seen = [peak for peak in peaks if peak]
        return int(quantile(seen, share) or 0) if len(seen) >= MEMORY_SAMPLES_MIN else None

    def duration_s(self, stage: Stage, model: str, share: float = 0.5) -> float | None:
        return quantile([s.duration_s for s in self.of(stage, model)], share)


def quantile(values: Iterable[float], share: float) -> float | None:
    """Nearest rank from above: of three values the p90 is the largest.  None of nothing."""
    ranked = sorted(values)
    if not ranked:
        return None
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
