"""The rehearsal agent against recorded streams of the client: a driver cannot tell them apart.

Compared is what a driver looks at: the order of lines, what the reader makes of them, and how
the ending is judged.  tests/real_client compares the two live, where the client is at hand.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adapters.execution.claude.classify import Ended, Verdict, classify
from adapters.execution.claude.stream import ClaudeReader, Seen
from orchestrator.core.model import ChildExit
from tests.unit.rehearsal.agent import OTHER, SESSION, Agent, Played, asks

RECORDED = Path(__file__).parents[1] / "data" / "claude-streams"
NOW = 1795970000.0
WORKS = """
say = "Writing the file."
do = [{ run = "echo hello > hello.txt && sleep 0" }]
last_words = "Done: wrote hello.txt"
"""
ACCOUNT = """
[account]
five_hour = 0.87
seven_day = 0.41
"""
ANSWERS = """
output.ok = true
output.summary = "did it"
"""
FREE = ("--permission-mode", "bypassPermissions", "--model", "claude-sonnet-4-6")
FITTING = {"type": "object", "required": ["ok", "summary"]}
MISFITTING = {"type": "object", "required": ["verdict"]}

NOBODY_READS = {
    *("fallback_credit", "fast_mode_disabled_reason", "fast_mode_state", "first_content_frame_ms"),
    *("safety_stops", "subagent_stats", "time_to_request_ms", "ttft_ms", "ttft_stream_ms"),
}
"""Of a result line: what the rehearsal agent leaves out."""


class Case(NamedTuple):
    recorded: str
    scenario: str = ""
    arguments: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    env: dict[str, str] = {}  # noqa: RUF012 - a constant


KEY = {"ANTHROPIC_API_KEY": "sk-none"}
CASES = (
    Case("success-api-key", f"[[call]]{WORKS}", FREE, env=KEY),
    Case("success-subscription", f"[[call]]{WORKS}{ACCOUNT}", FREE),
    Case("structured-output", f"[[call]]{WORKS}{ANSWERS}", FREE, FITTING, KEY),
    Case("structured-output-invalid", f"[[call]]{WORKS}{ANSWERS}", FREE, MISFITTING, KEY),
    Case("max-budget", f"[[call]]{WORKS}", (*FREE, "--max-budget-usd", "0.001"), env=KEY),
    Case("max-turns", f"[[call]]{WORKS}", (*FREE, "--max-turns", "1"), env=KEY),
    Case("overloaded", 'call = [{ fault = "overloaded" }]', env=KEY),
    Case("rate-limited-api-key", 'call = [{ fault = "throttled" }]', env=KEY),
    Case("rate-limited-subscription", 'call = [{ fault = "rate_limited" }]'),
    Case("auth-failed", 'call = [{ fault = "auth_failed" }]', env=KEY),
    Case("not-logged-in", 'call = [{ fault = "not_logged_in" }]', ("--model", "claude-opus-5-5")),
    Case("api-unreachable", 'call = [{ fault = { name = "unreachable", retries = 1 } }]', env=KEY),
)
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.recorded)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


@by_name
def test_the_same_lines_in_the_same_order(agent: Agent, case: Case) -> None:
    ours, theirs = _play(agent, case), _recorded(case)
    assert ours.status == theirs.status
    assert _outline(ours) == _outline(theirs)


@by_name
def test_the_same_fields_in_the_result(agent: Agent, case: Case) -> None:
    ours, theirs = _play(agent, case).result, _recorded(case).result
    assert set(theirs) - set(ours) <= NOBODY_READS
    assert set(ours) <= set(theirs)
    for name in ("modelUsage", "model_usage_since_last_result"):
        for model, usage in theirs[name].items():
            assert set(ours[name][model]) <= set(usage)


@by_name
def test_a_reader_sees_the_same(agent: Agent, case: Case) -> None:
    assert _told(_seen(_play(agent, case))) == _told(_seen(_recorded(case)))


@by_name
def test_the_ending_is_judged_the_same(agent: Agent, case: Case) -> None:
    ours, theirs = (_verdict(case, p) for p in (_play(agent, case), _recorded(case)))
    assert (ours.status, ours.cause, ours.session_lost) == (
        theirs.status,
        theirs.cause,
        theirs.session_lost,
    )
    assert ours.structured_output == theirs.structured_output
    assert (ours.resets_at is None) == (theirs.resets_at is None)


@by_name
def test_the_same_money(agent: Agent, case: Case) -> None:
    ours, theirs = _cost(_play(agent, case)), _cost(_recorded(case))
    assert ours == (None if theirs is None else pytest.approx(theirs, rel=1e-9))


def test_totals_add_up_over_a_resumed_session_as_recorded(agent: Agent) -> None:
    agent.scenario.write_text(f"[[call]]{WORKS}")
    hows = ("--session-id", "--resume", "--resume")
    played = [agent.play(asks(), how, SESSION, *FREE, **KEY) for how in hows]
    names = ("success-api-key", "success-resumed", "success-resumed-again")
    for ours, name in zip(played, names, strict=True):
        theirs = _recorded(Case(name)).result
        assert ours.result["total_cost_usd"] == pytest.approx(theirs["total_cost_usd"])
        since = [r["model_usage_since_last_result"] for r in (ours.result, theirs)]
        assert since[0]["claude-sonnet-4-6"]["costUSD"] == pytest.approx(
            since[1]["claude-sonnet-4-6"]["costUSD"]
        )


@pytest.mark.parametrize(
    ("recorded", "arguments"),
    [
        ("unknown-option", ("--no-such-option",)),
        ("bad-session-id", ("--session-id", "not-a-uuid")),
        ("unknown-session", ("--resume", "bbbbbbbb-0000-4000-8000-000000000001")),
    ],
)
def test_the_same_refusal(agent: Agent, recorded: str, arguments: tuple[str, ...]) -> None:
    ours, theirs = agent.play(asks(), *arguments), _recorded(Case(recorded))
    assert (ours.status, ours.stderr.strip()) == (theirs.status, theirs.stderr.strip())
    assert _outline(ours) == _outline(theirs)
    assert [line.get("errors") for line in ours.lines] == [
        line.get("errors") for line in theirs.lines
    ]


@pytest.mark.parametrize("how", ["--session-id", "--resume"])
def test_the_other_way_round_is_found_by_its_words(agent: Agent, how: str) -> None:
    """The lane starts again with the other of --session-id and --resume on these words."""
    agent.play(asks(), "--session-id", SESSION)
    played = agent.play(asks(), how, SESSION if how == "--session-id" else OTHER)
    assert not isinstance(_judged(Case(""), played), Verdict)


def _play(agent: Agent, case: Case) -> Played:
    agent.scenario.write_text(case.scenario)
    schema = () if case.schema is None else ("--json-schema", json.dumps(case.schema))
    return agent.play(asks(), *case.arguments, *schema, **case.env)


def _recorded(case: Case) -> Played:
    stem = RECORDED / case.recorded
    stderr = stem.with_suffix(".stderr")
    return Played(
        int(stem.with_suffix(".exit").read_text()),
        stem.with_suffix(".jsonl").read_bytes(),
        stderr.read_text() if stderr.exists() else "",
    )


def _outline(played: Played) -> list[str]:
    """Each line by its type, its subtype, and what is in it."""
    found = []
    for line in played.lines:
        blocks = line.get("message", {}).get("content", [])
        inside = [f"{b['type']} {b.get('name', '')}".strip() for b in blocks]
        found.append(" ".join([line["type"], line.get("subtype", ""), *inside]).strip())
    return found


def _seen(played: Played) -> Seen:
    reader = ClaudeReader()
    reader.feed(played.stdout)
    reader.close()
    return reader.seen


def _cost(played: Played) -> tuple[float, ...] | None:
    cost = _seen(played).meter.call_cost({}, "2.1.332")
    if cost is None:
        return None
    tokens = (cost.input_tokens, cost.output_tokens, cost.cache_read_tokens)
    return (cost.cost_usd, cost.session_total_usd or 0.0, *tokens, cost.cache_write_tokens)


def _told(seen: Seen) -> dict[str, Any]:
    """Without what differs between any two calls: ids, times, wording of times of day."""
    told = asdict(seen)
    for name in ("session_id", "timestamp", "meter"):
        del told[name]
    told["tools"] = list(seen.tools.values())
    told["windows"] = {name: (w.utilization, w.status) for name, w in seen.windows.items()}
    told["last_text"] = _without_place(told["last_text"])
    told["result"]["text"] = _without_place(told["result"]["text"])
    return told


def _without_place(text: str) -> str:
    """The client ends some of its words with a time of day or a host."""
    return text.partition(" · resets ")[0].partition(" If it persists")[0]


def _judged(case: Case, played: Played) -> Any:
    return classify(
        Ended(
            seen=_seen(played),
            exit=ChildExit(code=played.status),
            stderr_tail=played.stderr,
            schema=case.schema,
            again=False,
            now=NOW,
        )
    )


def _verdict(case: Case, played: Played) -> Verdict:
    verdict = _judged(case, played)
    assert isinstance(verdict, Verdict)
    return verdict
