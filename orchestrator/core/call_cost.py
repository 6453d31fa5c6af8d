"""What one model call cost.

Invariant: whoever made it, sums of it are finite.
"""

import msgspec

from orchestrator.core.record import Record

USD_MAX = 1_000_000
"""No call and no session costs more: what is said beyond it was not meant."""


class ModelUsage(Record, frozen=True, kw_only=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.cost_usd <= USD_MAX:
            msgspec.structs.force_setattr(self, "cost_usd", 0.0)


class CallCost(Record, frozen=True, kw_only=True):
    """What one model call cost, by itself, although the client reports session totals.

    Whoever made it, sums of it are finite: a figure that cannot be is one that was not reported.
    """

    cost_usd: float
    """This call's own cost in USD: an estimate at list prices."""
    session_total_usd: float | None = None
    """The session's running total, as the client reported it."""
    metered: bool = True
    """False where a part of ``cost_usd`` was not reported, and is estimated from tokens."""
    estimated_usd: float = 0.0
    """That part."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    by_model: dict[str, ModelUsage] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if 0.0 <= self.cost_usd <= USD_MAX and 0.0 <= self.estimated_usd <= USD_MAX:
            return
        for name, value in (("cost_usd", 0.0), ("estimated_usd", 0.0), ("metered", False)):
            msgspec.structs.force_setattr(self, name, value)
        msgspec.structs.force_setattr(self, "session_total_usd", None)
