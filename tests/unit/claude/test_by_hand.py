"""What work by hand is charged: as told, or estimated, and never nothing."""

from typing import Any

import pytest

from adapters.execution.claude.by_hand import cost_by_hand
from adapters.execution.claude.cost import price_of
from orchestrator.core.model import CallCost

MODEL = "claude-sonnet-4-6"
PRICE = price_of(MODEL)


def cost(usd: float | None, usage: dict[str, Any] | None = None, said: int = 40) -> CallCost:
    return cost_by_hand(usd, usage, model=MODEL, prompt_chars=400, said_chars=said)


def test_what_is_told_is_charged_with_its_tokens() -> None:
    found = cost(0.5, {"input_tokens": 7, "cache_read_input_tokens": 9})
    assert (found.cost_usd, found.metered, found.estimated_usd) == (0.5, True, 0.0)
    assert (found.input_tokens, found.cache_read_tokens) == (7, 9)
    assert cost(0.0).metered


def test_tokens_without_a_price_are_charged_at_list_price() -> None:
    found = cost(None, {"input_tokens": 1000, "output_tokens": 10, "cache_write_tokens": 4})
    assert not found.metered
    dollars = (1000 * PRICE.input + 10 * PRICE.output + 4 * PRICE.cache_write) / 1e6
    assert found.cost_usd == found.estimated_usd == pytest.approx(dollars)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": -3, "output_tokens": "many"}])
def test_where_nothing_is_told_the_prompt_and_the_answer_are_charged(
    usage: dict[str, Any] | None,
) -> None:
    found = cost(None, usage)
    assert (found.input_tokens, found.output_tokens, found.metered) == (100, 10, False)
    assert cost_by_hand(None, usage, model="", prompt_chars=0, said_chars=0).cost_usd > 0
