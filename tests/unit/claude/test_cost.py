"""Every call's own cost, whatever the client's totals run over."""

from typing import Any

import msgspec
import pytest

from orchestrator.core.model import CallCost, ModelUsage
from tests.unit.claude.recorded import init, line, recording, reply, result, seen_in

ONE_CALL_USD = 0.011832


def cost_of(stdout: bytes, before: dict[str, Any] | None = None) -> CallCost:
    seen = seen_in(stdout)
    found = seen.meter.call_cost(before or {}, seen.version)
    assert found is not None
    return found


def test_chain_of_resumed_calls() -> None:
    for number, name in enumerate(["success-api-key", "success-resumed", "success-resumed-again"]):
        cost = cost_of(recording(name).stdout)
        assert cost.cost_usd == pytest.approx(ONE_CALL_USD)
        assert cost.session_total_usd == pytest.approx(ONE_CALL_USD * (number + 1))
        assert cost.metered
        assert (cost.input_tokens, cost.output_tokens) == (24, 84)
        assert (cost.cache_read_tokens, cost.cache_write_tokens) == (10000, 2000)
        assert cost.by_model["claude-sonnet-4-6"].cost_usd == pytest.approx(ONE_CALL_USD)


def without_own(stdout: bytes) -> bytes:
    """As a client writes it that does not say what is new since the last result."""
    events = [msgspec.json.decode(text) for text in stdout.splitlines()]
    for event in events:
        event.pop("model_usage_since_last_result", None)
    return b"".join(line(**event) for event in events)


def test_difference_where_only_totals_are_told() -> None:
    before: dict[str, Any] = {}
    for name in ["success-api-key", "success-resumed", "success-resumed-again"]:
        cost = cost_of(without_own(recording(name).stdout), before)
        assert cost.cost_usd == pytest.approx(ONE_CALL_USD)
        assert cost.input_tokens == 24
        total = cost.session_total_usd
        times = round((total or 0) / ONE_CALL_USD)
        usage = ModelUsage(
            input_tokens=24 * times,
            output_tokens=84 * times,
            cache_read_tokens=10000 * times,
            cache_write_tokens=2000 * times,
            cost_usd=total or 0.0,
        )
        before = {"total_usd": total, "usage": {"claude-sonnet-4-6": msgspec.to_builtins(usage)}}


@pytest.mark.parametrize("version", ["2.1.221", ""])
def test_client_whose_totals_are_of_one_call(version: str) -> None:
    stream = init(claude_code_version=version) + reply() + result(total_cost_usd=0.03)
    assert cost_of(stream, {"total_usd": 0.25}).cost_usd == pytest.approx(0.03)
    dearer = init(claude_code_version="2.1.221") + reply() + result(total_cost_usd=0.3)
    assert cost_of(dearer, {"total_usd": 0.25}).cost_usd == pytest.approx(0.3)


def test_results_of_one_process_are_added() -> None:
    usage = {"claude-x": {"inputTokens": 5, "costUSD": 0.5}}
    one = result(total_cost_usd=0.5, model_usage_since_last_result=usage)
    two = result(total_cost_usd=1.0, model_usage_since_last_result=usage)
    cost = cost_of(init() + one + two, {"total_usd": 0.25})
    assert cost.cost_usd == 1.0
    assert cost.input_tokens == 10


def test_budget_that_was_reached_is_charged() -> None:
    assert cost_of(recording("max-budget").stdout).cost_usd == pytest.approx(0.005916)


@pytest.mark.parametrize("name", ["signal-KILL", "signal-TERM"])
def test_killed_call_is_estimated_from_its_messages(name: str) -> None:
    """Two lines of one message: its usage counts once, its words as what it put out."""
    cost = cost_of(recording(name).stdout, {"total_usd": 1.0})
    assert not cost.metered
    assert (cost.input_tokens, cost.cache_read_tokens, cost.cache_write_tokens) == (12, 5000, 1000)
    assert 1 < cost.output_tokens < 60
    prompt_usd = (12 * 3 + 5000 * 0.3 + 1000 * 3.75) / 1e6
    assert cost.cost_usd == pytest.approx(prompt_usd + cost.output_tokens * 15 / 1e6)
    assert cost.session_total_usd is None


def test_result_that_forgot_what_was_used() -> None:
    stream = init() + reply(input_tokens=1000) + result(total_cost_usd=0, is_error=True)
    assert cost_of(stream).cost_usd > 0
    assert not cost_of(stream).metered


def test_nothing_used_costs_nothing() -> None:
    assert cost_of(recording("overloaded").stdout).cost_usd == 0
    seen = seen_in(recording("unknown-option").stdout)
    assert seen.meter.call_cost({}, seen.version) is None


def test_failed_start_does_not_reset_the_session() -> None:
    cost = cost_of(recording("unknown-session").stdout, {"total_usd": 0.4})
    assert cost.cost_usd == 0
    assert cost.session_total_usd is None


def test_many_messages_in_bounded_memory() -> None:
    messages = (reply(message_id=f"m{n}", input_tokens=10, output_tokens=1) for n in range(1000))
    cost = cost_of(init() + b"".join(messages))
    assert cost.input_tokens == 10_000


def test_model_that_is_not_in_the_table() -> None:
    message = {"id": "m", "model": "claude-new-9", "content": [], "usage": {"input_tokens": 10**6}}
    assert cost_of(line(type="assistant", message=message)).cost_usd == pytest.approx(4.0)


def test_a_call_whose_result_nobody_saw_is_charged_with_the_next() -> None:
    second = recording("success-resumed").stdout
    before = {"total_usd": 0.0, "usage": {}, "calls": 1}
    cost = cost_of(second, before)
    assert cost.cost_usd == pytest.approx(2 * ONE_CALL_USD)
    assert (cost.input_tokens, cost.output_tokens) == (48, 168)


def test_an_estimate_that_ran_ahead_of_the_totals_makes_no_negative() -> None:
    third = recording("success-resumed-again").stdout
    ahead = {"claude-sonnet-4-6": {"input_tokens": 10**6, "cost_usd": 9.0}}
    cost = cost_of(third, {"total_usd": ONE_CALL_USD, "usage": ahead})
    assert cost.cost_usd == pytest.approx(2 * ONE_CALL_USD)
    assert cost.input_tokens == 0


def test_a_result_without_figures_takes_nothing_from_one_that_has_them() -> None:
    before = {"total_usd": 0.0, "estimated_usd": 0.3}
    own = {"m": {"inputTokens": 10, "costUSD": 0.2}}
    told = result(total_cost_usd=0.5, modelUsage={}, model_usage_since_last_result=own)
    silent = line(type="result", subtype="success", is_error=False, result="done")
    for stream in (silent + told, told + silent):
        cost = cost_of(init() + stream, before)
        assert cost.cost_usd == pytest.approx(0.2)
        assert cost.session_total_usd == 0.5
