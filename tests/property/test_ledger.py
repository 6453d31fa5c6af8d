"""The ledger adds up: whatever the client says of a session, and whatever becomes of its calls.

A model of the client is the truth: it charges each request, remembers or forgets the calls that
came to no result, and says its totals in whole, twice, late, or not at all.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from adapters.execution.claude.cost import Tokens, asked_at_least, price_of
from adapters.execution.claude.stream import ClaudeReader
from orchestrator.core.events import (
    KnownEvent,
    StageRecorded,
    TaskAbandoned,
    TaskFailed,
    TaskRequeued,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import CallCost, Cause, ModelUsage, Outcome, Stage, TaskId
from orchestrator.core.sessions import session_of
from orchestrator.core.state import TaskState
from orchestrator.journal.codec import encode_commit
from orchestrator.views.cost_books import CostBooks, books_of
from orchestrator.views.cost_report import BY, cost_report
from tests.unit.journal.events import NOW, added, created, recorded
from tests.unit.test_session_cost import task_after

MODEL = "claude-sonnet-4-6"
MICRO = 1e-6


@dataclass
class Client:
    """A session's books as the client keeps them."""

    remembers: bool
    """Also what calls used that came to no result."""
    says_own: bool
    """It says what is new since its last result."""
    total: list[Tokens] = field(default_factory=list)
    version: str = "2.1.332"

    def call(self, requests: list[int], *, ends: str, figure: Any) -> bytes:
        """``requests``: output tokens of each; ``figure``: in place of the total."""
        lines: list[dict[str, Any]] = [init(self.version)]
        used = [Tokens(MODEL, 10, tokens, 0, 0) for tokens in requests]
        for number, each in enumerate(used):
            lines.append(message(f"m{len(self.total) + number}-{ends}", each))
        if ends == "killed":
            if self.remembers:
                self.total += used
            return stream(lines)
        self.total += used
        result: dict[str, Any] = {"type": "result", "subtype": "success"}
        if figure is not None:
            result["total_cost_usd"] = figure
        else:
            result["total_cost_usd"] = usd(self.total)
            result["modelUsage"] = {MODEL: usage(self.total)}
            if self.says_own:
                result["model_usage_since_last_result"] = {MODEL: usage(used)}
        lines.append(result)
        if ends == "twice":
            lines.append(result)
        if ends == "late" and used:
            lines.append(message(f"m{len(self.total) - 1}-{ends}", used[-1]))
        return stream(lines)


def init(version: str) -> dict[str, Any]:
    kind = {"type": "system", "subtype": "init", "session_id": "s", "model": MODEL}
    return {**kind, "claude_code_version": version}


def message(name: str, used: Tokens) -> dict[str, Any]:
    said = {"input_tokens": used.input, "output_tokens": used.output}
    return {
        "type": "assistant",
        "message": {"id": name, "model": MODEL, "content": [], "usage": said},
    }


def usage(used: list[Tokens]) -> dict[str, Any]:
    return {
        "inputTokens": sum(each.input for each in used),
        "outputTokens": sum(each.output for each in used),
        "costUSD": usd(used),
    }


def usd(used: list[Tokens]) -> float:
    price = price_of(MODEL)
    return sum(each.input * price.input + each.output * price.output for each in used) / 1e6


def stream(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def cost_of(task: TaskState, said: bytes) -> CallCost | None:
    """As the lane charges it, with what the fold has kept of the session."""
    session = session_of(task, Stage.IMPLEMENT)
    assert session is not None
    before = {
        "total_usd": session.total_usd,
        "estimated_usd": session.estimated_usd,
        "usage": msgspec.to_builtins(session.usage),
    }
    reader = ClaudeReader()
    reader.feed(said)
    reader.close()
    return reader.seen.meter.call_cost(before, reader.seen.version, asked_at_least(MODEL, 400))


ABSURD: dict[str, Any] = {
    "no figure": "?",
    "negative": -1,
    "true": True,
    "huge": 1.7e308,
    "infinite": math.inf,
    "not a number": math.nan,
    "list": [1.0],
    "dear": 1_000_000.5,
}
"""What stands in a result in place of its total."""

calls = st.tuples(
    st.lists(st.integers(1, 50_000), max_size=4),
    st.sampled_from(("result", "result", "twice", "late", "killed", *ABSURD)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(calls, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_the_calls_of_a_session_sum_to_what_it_cost(
    course: list[tuple[list[int], str]], remembers: bool, says_own: bool
) -> None:
    client = Client(remembers=remembers or not says_own, says_own=says_own)
    costs: list[CallCost] = []
    truth = 0.0
    guesses = 0.0
    for requests, ends in course:
        said = client.call(requests, ends=ends, figure=ABSURD.get(ends))
        used = usd([Tokens(MODEL, 10, tokens, 0, 0) for tokens in requests])
        truth += used
        cost = cost_of(task_after(*costs), said)
        assert cost is not None
        is_known = ends != "killed" and ends not in ABSURD
        assert cost.metered == is_known
        if not is_known:
            assert cost.cost_usd > 0, "a call without a figure is never free"
            # Without the client's word for each call an estimate is never taken back.
            guesses += cost.cost_usd - (used if says_own else 0.0)
        costs.append(cost)
        assert -MICRO <= sum(each.cost_usd for each in costs) - truth <= guesses + MICRO
    if says_own:
        # All that is booked beside the truth: requests that may never have been sent.
        assert guesses <= len(course) * 100 * price_of(MODEL).input / 1e6 + MICRO


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(1, 50_000), min_size=1, max_size=4),
            st.sampled_from(("result", "twice", "late", "killed", *ABSURD)),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
    st.sampled_from(("2.1.221", "2.1.332", "")),
)
def test_no_work_is_free_where_the_client_counts_anew(
    course: list[tuple[list[int], str, bool]], says_own: bool, version: str
) -> None:
    """In its middle the totals begin again: they shrink, stay, grow, or are missing."""
    client = Client(remembers=True, says_own=says_own, version=version)
    costs: list[CallCost] = []
    for requests, ends, counts_anew in course:
        if counts_anew:
            client.total = []
        cost = cost_of(
            task_after(*costs), client.call(requests, ends=ends, figure=ABSURD.get(ends))
        )
        assert cost is not None
        assert 0 < cost.cost_usd < 100
        costs.append(cost)
        used = usd([Tokens(MODEL, 10, tokens, 0, 0) for tokens in requests])
        if says_own and ends in {"result", "twice", "late"}:
            assert cost.cost_usd >= used - MICRO, "what the client itself says of the call"


def test_a_total_that_shrank_is_where_the_next_is_counted_from() -> None:
    costs: list[CallCost] = []
    for total_usd in (0.5, 0.3, 0.6, 0.6):
        said = stream(
            [
                init("2.1.332"),
                message("m", Tokens(MODEL, 10, 1000, 0, 0)),
                {"type": "result", "subtype": "success", "total_cost_usd": total_usd},
            ]
        )
        cost = cost_of(task_after(*costs), said)
        assert cost is not None
        costs.append(cost)
    assert [round(cost.cost_usd, 6) for cost in costs] == [0.5, 0.3, 0.3, 0.01503]
    assert [cost.metered for cost in costs] == [True, True, True, False]


def test_a_second_result_that_says_less_takes_nothing_back() -> None:
    said = stream(
        [
            init("2.1.332"),
            message("m1", Tokens(MODEL, 10, 1000, 0, 0)),
            {"type": "result", "subtype": "success", "total_cost_usd": 0.5},
            message("m2", Tokens(MODEL, 10, 1000, 0, 0)),
            {"type": "result", "subtype": "success", "is_error": True, "total_cost_usd": 0},
        ]
    )
    cost = cost_of(task_after(), said)
    assert cost is not None
    assert (round(cost.cost_usd, 6), cost.metered) == (0.51503, False)


def test_a_start_that_nobody_answered_costs_its_prompt() -> None:
    cost = cost_of(task_after(), stream([init("2.1.332")]))
    assert cost is not None
    assert (cost.metered, cost.input_tokens) == (False, 100)
    assert cost.cost_usd == cost.estimated_usd == 100 * price_of(MODEL).input / 1e6


events = st.builds(
    lambda task, stage, outcome, cause, cost: msgspec.structs.replace(
        recorded(task, stage), outcome=outcome, cause=cause, cost=cost
    ),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(Stage),
    st.sampled_from(Outcome),
    st.sampled_from(Cause),
    st.none()
    | st.builds(
        CallCost,
        cost_usd=st.floats(0, 100).map(lambda usd: round(usd, 8)),
        metered=st.booleans(),
        by_model=st.dictionaries(
            st.sampled_from(("opus", "sonnet", "haiku")),
            st.builds(ModelUsage, cost_usd=st.floats(0, 100), input_tokens=st.integers(0, 10**6)),
        ),
    ),
)
endings = st.builds(
    lambda task, kind: kind(TaskId(task)),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(
        (
            lambda task: TaskFailed(task_id=task, stage=Stage.TEST, reason=""),
            lambda task: TaskAbandoned(task_id=task),
            lambda task: TaskRequeued(task_id=task, round=2),
        )
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(events | endings, max_size=40), st.sets(st.sampled_from(BY)))
def test_whatever_it_is_grouped_by_the_report_sums_to_the_ledger(
    course: list[KnownEvent], by: set[str]
) -> None:
    calls = [e for e in course if isinstance(e, StageRecorded) and not e.stage.is_deterministic]
    ledger = sum(call.cost.cost_usd for call in calls if call.cost is not None)
    report = cost_report(_books(course), sorted(by), run_id="r1", now=NOW)
    assert abs(report.total.cost_usd - ledger) < MICRO
    assert abs(sum(row.cost_usd for row in report.rows) - ledger) < MICRO
    assert abs(sum(report.waste.values()) - ledger) < MICRO
    assert sum(row.calls for row in report.rows) == report.total.calls == len(calls)
    assert report.total.unmetered_usd <= report.total.cost_usd + MICRO


def _books(course: list[KnownEvent]) -> CostBooks:
    events = [created(), added("a"), added("b"), added("c"), *course]
    entries = encode_commit(events, after_seq=0, run_id="r1", now=NOW)[1]
    assert replay(entries[:4]).tasks
    return books_of(entries)
