"""Whatever a client says of tokens and money, an event can hold it, and sums of it stay sums."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from orchestrator.core.model import CallCost
from orchestrator.journal.codec import encode_commit
from tests.unit.claude.recorded import init, line, seen_in
from tests.unit.journal.events import NOW, recorded

ODD: list[Any] = [
    *(1.7e308, 1e7, math.inf, -math.inf, math.nan, -1, -1e-300, True, False, None, "0.5", [], {}),
    *(10**30, 10**400, 2**63, 0, 0.25, 3),
]
NAMES = ["claude-sonnet-4-6", "\ud800", "a\x00b", "", "x" * 10**6, "\x1b[31mred\n", "‮abc"]
numbers = st.sampled_from(ODD) | st.floats() | st.integers()
names = st.sampled_from(NAMES) | st.text(max_size=5)
usage = st.dictionaries(
    st.sampled_from(("inputTokens", "outputTokens", "costUSD", "cacheReadInputTokens")), numbers
)
models = numbers | st.dictionaries(names, usage | numbers, max_size=3)
messages = st.dictionaries(
    st.sampled_from(("input_tokens", "output_tokens", "cache_read_input_tokens")), numbers
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(numbers, models, models), max_size=3), st.lists(st.tuples(names, messages))
)
def test_any_figures_make_a_cost_that_can_be_written_and_summed(
    results: list[tuple[Any, Any, Any]], said: list[tuple[str, dict[str, Any]]]
) -> None:
    stdout = init()
    for number, (model, used) in enumerate(said):
        message = {"id": f"m{number}", "model": model, "content": [], "usage": used}
        stdout += line(type="assistant", message=message)
    for total, whole, own in results:
        stdout += line(
            type="result",
            subtype="success",
            total_cost_usd=total,
            modelUsage=whole,
            model_usage_since_last_result=own,
        )
    seen = seen_in(stdout)
    cost = seen.meter.call_cost({}, seen.version)
    if cost is None:
        return
    assert 0 <= cost.cost_usd <= 4e6
    assert cost.metered == (cost.estimated_usd == 0) or not cost.cost_usd
    assert written(cost) == cost
    for name in cost.by_model:
        assert len(name) <= 100
        assert name.isprintable()


def written(cost: CallCost) -> CallCost | None:
    event = recorded("a")
    event = type(event)(**{**{f: getattr(event, f) for f in event.__struct_fields__}, "cost": cost})
    (entry,) = encode_commit([event], after_seq=0, run_id="r", now=NOW)[1]
    return getattr(entry.event, "cost", None)


@pytest.mark.parametrize("figure", [1.7e308, math.inf, math.nan, -1, True, "0.5", 1e7])
def test_a_total_that_cannot_be_is_as_none_and_the_call_is_estimated(figure: Any) -> None:
    used = {"input_tokens": 1000, "output_tokens": 1000}
    message = {"id": "m", "model": "claude-sonnet-4-6", "content": [], "usage": used}
    own = {"claude-sonnet-4-6": {"costUSD": 0.7}}
    stdout = init() + line(type="assistant", message=message)
    stdout += json.dumps(
        {"type": "result", "total_cost_usd": figure, "model_usage_since_last_result": own}
    ).encode()
    cost = seen_in(stdout).meter.call_cost({}, "")
    assert cost is not None
    assert (cost.metered, round(cost.cost_usd, 6)) == (False, 0.018)


def test_tokens_that_no_message_has_are_not_priced() -> None:
    used = {"input_tokens": 10**12, "output_tokens": 10**30, "cache_read_input_tokens": 100}
    message = {"id": "m", "model": "claude-sonnet-4-6", "content": [], "usage": used}
    cost = seen_in(init() + line(type="assistant", message=message)).meter.call_cost({}, "")
    assert cost is not None
    assert cost.cost_usd < 0.01
