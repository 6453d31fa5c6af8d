"""What a call cost that somebody else made: as they say it, or estimated from what they say.

Invariant: never 0 where nothing was said, because something was asked and something came back.
"""

from collections.abc import Mapping
from typing import Any

from adapters.execution.claude.cost import CHARS_PER_TOKEN, Tokens, usage_at_list_price
from adapters.execution.claude.wire import count
from orchestrator.core.model import CallCost

_NAMES = (
    ("input_tokens",),
    ("output_tokens",),
    ("cache_read_tokens", "cache_read_input_tokens"),
    ("cache_write_tokens", "cache_creation_input_tokens"),
)
"""Ours, and the API's."""


def cost_by_hand(
    cost_usd: float | None,
    usage: Mapping[str, Any] | None,
    *,
    model: str,
    prompt_chars: int,
    said_chars: int,
) -> CallCost:
    told = usage or {}
    counts = [max(count(told.get(name)) for name in names) for names in _NAMES]
    if cost_usd is None and not any(counts):
        counts = [max(1, prompt_chars // CHARS_PER_TOKEN), said_chars // CHARS_PER_TOKEN, 0, 0]
    used = usage_at_list_price(Tokens(model, *counts))
    return CallCost(
        cost_usd=used.cost_usd if cost_usd is None else cost_usd,
        metered=cost_usd is not None,
        estimated_usd=used.cost_usd if cost_usd is None else 0.0,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
    )
