import tracemalloc
from typing import Any

import pytest

from adapters.execution.claude.stream import ClaudeReader
from adapters.execution.lines import LINE_BYTES_MAX
from orchestrator.core.model import Window
from orchestrator.ports.execution import Answered, ResultSeen, Unwanted, WindowsSeen
from tests.unit.claude.recorded import init, line, recording, reply, result, seen_in


def observed(*lines: bytes) -> list[Any]:
    """All but the first answer, which every client that works gives."""
    reader = ClaudeReader()
    found = [found for data in lines for found in reader.feed(data)]
    return [each for each in found if each != Answered()]


def test_summary_of_a_success() -> None:
    seen = seen_in(recording("success-subscription").stdout)
    assert seen.session_id == "aaaaaaaa-0000-4000-8000-000000000002"
    assert (seen.model, seen.version) == ("claude-sonnet-4-6", "2.1.332")
    assert seen.api_key_source == "none"
    assert seen.replies == 3
    assert seen.last_text == "Done: wrote hello.txt"
    assert not seen.tools
    assert seen.final_result is not None
    assert seen.unreadable_lines == 0


def test_windows_are_observed() -> None:
    five = Window(name="five_hour", utilization=0.87, resets_at=1795975366.0)
    seven = Window(name="seven_day", utilization=0.41, resets_at=1796368166.0)
    found = observed(recording("success-subscription").stdout)
    assert found == [WindowsSeen((five, seven)), ResultSeen()]


def test_rejected_window_is_full() -> None:
    seen = seen_in(recording("rate-limited-subscription").stdout)
    assert seen.windows["five_hour"] == Window(
        name="five_hour", utilization=1.0, resets_at=1795971776.0, status="rejected"
    )


def test_api_retries_are_counted() -> None:
    assert seen_in(recording("overloaded").stdout).api_retries == 2


def test_tool_in_flight() -> None:
    assert list(seen_in(recording("signal-KILL").stdout).tools.values()) == ["Bash"]


def test_result_is_not_the_end_while_more_is_to_come() -> None:
    live = line(type="system", subtype="background_tasks_changed", tasks=[{"task_id": "b1"}])
    none = line(type="system", subtype="background_tasks_changed", tasks=[])
    assert observed(init(), reply(), result()) == [ResultSeen()]
    assert observed(init(), reply(), result(queued_turn_count=1)) == []
    assert observed(init(), live, result()) == []
    assert observed(init(), live, none, result()) == [ResultSeen()]
    assert observed(init(), live, result(), none, init(), reply(), result()) == [ResultSeen()]


def test_result_that_a_signal_brought_about_is_none_of_the_work() -> None:
    """Else a deadline's SIGINT would look like an end that came before the deadline."""
    assert observed(recording("signal-INT").stdout) == []
    assert observed(recording("max-budget").stdout) == [ResultSeen()]


def test_background_tasks_of_older_clients() -> None:
    began = line(type="system", subtype="task_started", task_id="t", is_backgrounded=True)
    ended = line(type="system", subtype="task_notification", task_id="t", status="completed")
    killed = line(type="system", subtype="task_updated", task_id="t", patch={"status": "killed"})
    assert observed(began, result()) == []
    assert observed(began, ended, result()) == [ResultSeen()]
    assert observed(began, killed, result()) == [ResultSeen()]


def test_a_server_that_lives_on_keeps_nobody_waiting() -> None:
    shell = {"task_id": "b1", "task_type": "local_bash"}
    live = line(type="system", subtype="background_tasks_changed", tasks=[shell])
    assert observed(init(), live, result()) == [ResultSeen()]


@pytest.mark.parametrize("source", ["ANTHROPIC_API_KEY", "apiKeyHelper", "/login managed key"])
def test_a_key_that_is_not_to_pay_is_seen_at_once(source: str) -> None:
    billed = init(apiKeySource=source)
    (seen,) = ClaudeReader(billing="subscription").feed(billed)
    assert isinstance(seen, Unwanted)
    assert source in seen.why
    assert ClaudeReader(billing="api_key").feed(billed) == ()


def test_a_subscription_that_is_not_to_pay_is_seen_at_once() -> None:
    (seen,) = ClaudeReader(billing="api_key").feed(init())
    assert isinstance(seen, Unwanted)
    assert ClaudeReader(billing="subscription").feed(init()) == ()
    silent = init(apiKeySource="")
    assert ClaudeReader(billing="api_key").feed(silent) == ()


def test_the_first_answer_of_a_model_is_told_once() -> None:
    reader = ClaudeReader()
    assert reader.feed(init() + reply()) == (Answered(),)
    assert reader.feed(reply(message_id="m2")) == ()


def limited(**info: object) -> tuple[Window, ...]:
    (seen,) = ClaudeReader().feed(line(type="rate_limit_event", rate_limit_info=info))
    assert isinstance(seen, WindowsSeen)
    return seen.windows


def test_what_is_paid_beyond_a_window_marks_the_window_that_is_used_up() -> None:
    five, seven = limited(
        status="allowed",
        rateLimitType="five_hour",
        isUsingOverage=True,
        unifiedWindows={"five_hour": {"utilization": 1.0}, "seven_day": {"utilization": 0.4}},
    )
    assert (five.overage, seven.overage) == (True, False)
    (named,) = limited(status="allowed", rateLimitType="seven_day", isUsingOverage=True)
    assert named.overage
    (plain,) = limited(status="allowed", rateLimitType="five_hour", isUsingOverage=False)
    assert not plain.overage


def test_noise_does_not_hide_an_object() -> None:
    for noise in (b"[SandboxDebug] {x} ", b"\x00\x00", b"\xff\xfe", b"warn: {} ", b"nvm: \xf0\x9f"):
        assert seen_in(noise + result()).result is not None
    assert seen_in(result()[:-1] + b"\x00\x00\r\n").result is not None
    assert seen_in(b"plain words\n[not json\n{broken\n").unreadable_lines == 3


def test_array_of_events() -> None:
    events = [init(), reply(), result()]
    seen = seen_in(b"[" + b",".join(e.strip() for e in events) + b"]\n")
    assert seen.started
    assert seen.result is not None


def test_torn_line_does_not_give_up_its_inner_objects() -> None:
    inner = b'"x":{"type":"result","subtype":"success","is_error":false}'
    assert seen_in(b'tail of a line",' + inner + b"}\n").result is None


def test_last_line_without_its_newline() -> None:
    whole = seen_in(init() + reply() + result()[:-1])
    assert whole.final_result is not None
    assert not whole.is_torn
    torn = seen_in(init() + reply() + result()[:-2])
    assert torn.final_result is None
    assert torn.is_torn


def test_words_that_no_file_can_hold() -> None:
    seen = seen_in(
        b'{"type":"result","subtype":"success","result":"\\ud800 x","errors":["\\udfff"]}\n'
    )
    assert seen.result is not None
    assert seen.result.text.encode() == b"? x"


def test_key_order_means_nothing() -> None:
    event = {"result": "done", "num_turns": 1, "is_error": False, "subtype": "success"}
    assert seen_in(line(**event, type="result")).result is not None


def test_large_result_is_still_usable() -> None:
    found = seen_in(result(structured_output={"text": "x" * 10_000_000})).result
    assert found is not None
    assert len(found.structured_output["text"]) == 10_000_000


def test_line_of_100_mb_is_skipped_in_bounded_memory() -> None:
    reader = ClaudeReader()
    reader.feed(init() + reply())
    piece = b'{"type":"user","x":"' + b"y" * (1 << 20)
    tracemalloc.start()
    try:
        for _ in range(100):
            reader.feed(piece)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reader.feed(b"\n" + result())
    assert peak_bytes < 3 * LINE_BYTES_MAX
    assert reader.seen.oversize_lines == 1
    assert reader.seen.final_result is not None
