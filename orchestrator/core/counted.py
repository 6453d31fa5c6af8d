"""What is counted of a run: dispatches and calls for its audits, money and tokens for its bill.

Invariant: a figure here only grows by what an event says, but for what is reserved.
"""

from dataclasses import dataclass, field

from orchestrator.core.model import CallCost, Stage


@dataclass(slots=True, kw_only=True)
class Counters:
    """What the audits count."""

    dispatched: int = 0
    recorded: int = 0
    adopted: int = 0
    harvested: int = 0
    resumed: int = 0
    redispatched: int = 0
    superseded: int = 0
    abandoned: int = 0
    results_rejected: int = 0
    calls: int = 0
    calls_by_lane: dict[str, int] = field(default_factory=dict)
    unattributed: int = 0
    attempts_spent: int = 0


@dataclass(slots=True, kw_only=True)
class Totals:
    cost_usd: float = 0.0
    metered: bool = True
    by_stage: dict[Stage, float] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reserved_usd: float = 0.0
    """Over the leases that are out."""

    def add(self, stage: Stage, cost: CallCost) -> None:
        self.cost_usd += cost.cost_usd
        self.metered = self.metered and cost.metered
        self.by_stage[stage] = self.by_stage.get(stage, 0.0) + cost.cost_usd
        self.input_tokens += cost.input_tokens
        self.output_tokens += cost.output_tokens
        self.cache_read_tokens += cost.cache_read_tokens
        self.cache_write_tokens += cost.cache_write_tokens
