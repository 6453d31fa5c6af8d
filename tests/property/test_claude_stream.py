"""However a stream is cut, torn or spoilt, reading it gives the same, or a verdict at least."""

import json
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from adapters.execution.claude.classify import Verdict
from adapters.execution.claude.stream import ClaudeReader, Seen
from adapters.execution.lanes import StartAgain
from orchestrator.core.model import ChildExit, ResultStatus, Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from tests.unit.claude.recorded import NAMES, init, judged, line, recording, reply, seen_in

KEYS = [
    "type", "subtype", "is_error", "result", "errors", "structured_output", "api_error_status",
    "terminal_reason", "num_turns", "queued_turn_count", "total_cost_usd", "modelUsage",
    "model_usage_since_last_result", "permission_denials", "startup_failure_reason", "message",
    "rate_limit_info", "tasks", "task_id", "patch", "timestamp", "session_id", "usage", "content",
    "unifiedWindows", "resetsAt", "claude_code_version", "error", "stop_reason", "lost",
]  # fmt: skip
WORDS = [
    "success", "error_during_execution", "api_error", "allowed", "rejected", "tool_use",
    "tool_result", "transcript", "You've hit your limit · resets Feb 30 at 99:99pm (Nowhere)",
    "No conversation found with session ID: x", "2026-11-29T16:03:13.733Z", "999999.1.1",
]  # fmt: skip
TYPES = [
    ("assistant", ""), ("user", ""), ("result", "success"), ("result", "error_max_turns"),
    ("rate_limit_event", ""), ("system", "init"), ("system", "api_retry"),
    ("system", "background_tasks_changed"), ("system", "task_started"),
    ("system", "task_notification"), ("system", "task_updated"),
    ("system", "session_writes_lost"), ("never_seen", "before"),
]  # fmt: skip
NUMBERS = [0, -1, 7, 429, 10**30, 10**400, 0.5, -1e300, float("inf"), float("nan")]
scalars = st.sampled_from([None, True, False, *NUMBERS, "", "x", "\ud800", "\x00", *WORDS])


def inside(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        scalars
        | st.lists(values, max_size=2)
        | st.dictionaries(st.sampled_from(KEYS), values, max_size=3)
    )


objects = st.dictionaries(st.sampled_from(KEYS), inside(inside(scalars)), max_size=6)


def summary(seen: Seen) -> dict[str, Any]:
    fields = asdict(seen)
    fields["meter"] = seen.meter.call_cost({}, seen.version)
    return fields


@pytest.mark.parametrize("name", NAMES)
def test_byte_by_byte_is_the_same(name: str) -> None:
    stdout = recording(name).stdout
    reader = ClaudeReader()
    for index in range(len(stdout)):
        reader.feed(stdout[index : index + 1])
    reader.close()
    assert summary(reader.seen) == summary(seen_in(stdout))


@given(name=st.sampled_from(NAMES), cuts=st.lists(st.integers(0, 13_000), max_size=30))
def test_pieces_of_any_size_are_the_same(name: str, cuts: list[int]) -> None:
    stdout = recording(name).stdout
    bounds = [0, *sorted(cut for cut in cuts if cut < len(stdout)), len(stdout)]
    whole = ClaudeReader()
    expected = whole.feed(stdout)
    whole.close()
    reader = ClaudeReader()
    found: list[Any] = []
    for start, end in pairwise(bounds):
        found.extend(reader.feed(stdout[start:end]))
    reader.close()
    assert tuple(found) == expected
    assert summary(reader.seen) == summary(whole.seen)


def judge_cut(stdout: bytes, end: int) -> None:
    """A stream without its result is never a success."""
    found = judged(stdout[:end], ChildExit(signal=9))
    assert isinstance(found, Verdict | StartAgain)
    if isinstance(found, Verdict) and end < len(stdout.rstrip(b"\n")):
        assert found.status is not ResultStatus.SUCCESS


@pytest.mark.parametrize("name", NAMES)
def test_cut_around_each_end_of_a_line(name: str) -> None:
    stdout = recording(name).stdout
    ends = [at for at, byte in enumerate(stdout) if byte == ord("\n")]
    for end in {0, *range(0, len(stdout), 211), *(at + by for at in ends for by in (-1, 0, 1))}:
        judge_cut(stdout, end)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_cut_at_every_byte(name: str) -> None:
    stdout = recording(name).stdout
    for end in range(len(stdout)):
        judge_cut(stdout, end)


@given(data=st.binary(max_size=500), name=st.sampled_from(NAMES), at=st.integers(0, 13_000))
def test_garbage_is_survived(data: bytes, name: str, at: int) -> None:
    stdout = recording(name).stdout
    judged(stdout[:at] + data + stdout[at:])
    judged(data)


@given(kind=st.sampled_from(TYPES), fields=objects, worked=st.booleans(), code=st.integers(-1, 300))
@settings(max_examples=150)
def test_any_object_is_judged(
    kind: tuple[str, str], fields: dict[str, Any], worked: bool, code: int
) -> None:
    event = {**fields, "type": kind[0], **({"subtype": kind[1]} if kind[1] else {})}
    before = init() + reply() if worked else b""
    for stdout in (
        before + line(**event),
        before
        + line(**event)
        + line(type="result", **{name: value for name, value in fields.items() if name != "type"}),
    ):
        found = judged(stdout, ChildExit(code=code), schema=OUTPUT_SCHEMAS[Stage.REVIEW])
        assert isinstance(found, Verdict | StartAgain)
        if isinstance(found, Verdict):
            assert (found.status is ResultStatus.SUCCESS) == (found.cause is None)
            assert bool(found.error) == (found.cause is not None)
        cost = seen_in(stdout).meter.call_cost(fields, "")
        assert cost is None or cost.cost_usd >= 0
        json.dumps(found.structured_output if isinstance(found, Verdict) else None)
