from typing import Any

import pytest

from orchestrator.core.model import Cause, ChildExit, ResultStatus
from tests.unit.claude.recorded import failed, init, line, reply, result, synthetic, verdict

S, C = ResultStatus, Cause
WORKED = init() + reply()


def test_kill_after_a_good_result_is_no_failure() -> None:
    for exit_ in (ChildExit(signal=9, reason="stopped"), ChildExit(code=1), ChildExit(signal=15)):
        assert verdict(WORKED + result(), exit_).status is S.SUCCESS
    assert verdict(WORKED + result(), ChildExit(signal=9, reason="deadline")).status is S.SUCCESS


def test_last_result_counts() -> None:
    first = result(is_error=True, subtype="error_during_execution", errors=["no"])
    assert verdict(WORKED + first + result()).status is S.SUCCESS
    assert verdict(WORKED + result() + first).cause is C.WORK_ERROR


def test_turn_that_began_after_a_result_has_to_end() -> None:
    assert verdict(WORKED + result() + init(), ChildExit(signal=9)).cause is C.CRASH
    assert verdict(WORKED + result(queued_turn_count=1)).cause is C.CRASH


def test_success_without_work_is_a_failure() -> None:
    assert verdict(init() + result()).cause is C.INVALID_OUTPUT
    assert verdict(WORKED + result(num_turns=0)).cause is C.INVALID_OUTPUT
    assert verdict(init() + synthetic("Unknown command", "") + result()).status is S.FAILURE


@pytest.mark.parametrize(
    ("reason", "cause"), [("deadline", C.TIMEOUT), ("stopped", C.INTERRUPTED), ("exited", C.CRASH)]
)
def test_end_without_a_result(reason: str, cause: Cause) -> None:
    assert verdict(WORKED, ChildExit(signal=9, reason=reason)).cause is cause
    assert verdict(b"", ChildExit(code=143, reason=reason)).cause is cause


def test_deadline_that_interrupts_a_tool_is_a_timeout() -> None:
    aborted = result(
        is_error=True, subtype="error_during_execution", terminal_reason="aborted_tools"
    )
    assert verdict(WORKED + aborted, ChildExit(code=0, reason="deadline")).cause is C.TIMEOUT
    assert verdict(WORKED + aborted, ChildExit(code=0, reason="stopped")).cause is C.INTERRUPTED


def test_limit_is_a_limit_even_when_stopped() -> None:
    limited = WORKED + failed("You've hit your weekly limit · resets Mon 12:00am")
    assert verdict(limited, ChildExit(signal=9, reason="stopped")).cause is C.LIMIT


def rejected(resets_at: int | None = 1_795_971_776) -> bytes:
    info: dict[str, Any] = {"status": "rejected", "rateLimitType": "five_hour"}
    return line(type="rate_limit_event", rate_limit_info={**info, "resetsAt": resets_at})


def test_rejected_window_alone_is_no_limit() -> None:
    assert verdict(WORKED + rejected() + result()).status is S.SUCCESS
    turns = result(is_error=True, subtype="error_max_turns", terminal_reason="max_turns")
    assert verdict(WORKED + rejected() + turns).cause is C.WORK_ERROR


@pytest.mark.parametrize("status", ["allowed", "allowed_warning", "something_new"])
def test_a_window_that_is_told_of_is_no_limit(status: str) -> None:
    info = {"status": status, "rateLimitType": "five_hour", "resetsAt": 1_795_971_776}
    told = line(type="rate_limit_event", rate_limit_info=info)
    assert verdict(WORKED + told + result()).status is S.SUCCESS
    failed = result(is_error=True, api_error_status=429, result="try again")
    assert verdict(WORKED + told + failed).cause is C.OUTAGE


def test_limit_in_words_that_nobody_knows() -> None:
    stream = init() + rejected() + failed("Wait a little, friend.", api_error_status=429)
    assert verdict(stream).cause is C.LIMIT
    assert verdict(stream).resets_at == 1_795_971_776


def test_limit_quoted_by_the_model_is_no_limit() -> None:
    quoted = "Claude AI usage limit reached|1749924000"
    assert verdict(init() + reply(quoted) + result(result=quoted)).status is S.SUCCESS


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Claude AI usage limit reached|1795971776", C.LIMIT),
        ("5-hour limit reached ∙ resets 3pm", C.LIMIT),
        ("You\u2019ve hit your session limit · resets 3:45pm", C.LIMIT),
        ("You're out of extra usage · resets 5pm", C.LIMIT),
        ("You've hit your Opus limit", C.LIMIT),
        ("You're out of usage credits · resets 5pm (UTC)", C.LIMIT),
        ("You've hit your monthly spend limit · raise it at claude.ai", C.BILLING),
        ("You're out of usage credits", C.BILLING),
        ("Your org is out of usage · contact your admin", C.BILLING),
        ("Your group's usage limit is set to $0", C.BILLING),
        ("Fable 5 requires usage credits", C.BILLING),
        ("Credit balance is too low", C.BILLING),
        ("Failed to authenticate: OAuth session expired and could not be refreshed", C.AUTH),
        ("API Error: Server is temporarily limiting requests (not your usage limit)", C.OUTAGE),
        ("API Error: Repeated 529 Overloaded errors", C.OUTAGE),
        ("Prompt is too long", C.SESSION_LOST),
    ],
)
def test_by_text(text: str, cause: Cause) -> None:
    assert verdict(init() + synthetic(text, "unknown") + failed(text)).cause is cause


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (400, C.SESSION_LOST),
        (401, C.AUTH),
        (402, C.BILLING),
        (403, C.AUTH),
        (404, C.MISCONFIGURED),
        (413, C.SESSION_LOST),
        (429, C.OUTAGE),
        (500, C.OUTAGE),
        (529, C.OUTAGE),
    ],
)
def test_by_api_status(status: int, cause: Cause) -> None:
    assert verdict(init() + failed("API Error: no", api_error_status=status)).cause is cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("billing_error", C.BILLING),
        ("account_on_hold", C.AUTH),
        ("model_not_found", C.MISCONFIGURED),
        ("rate_limit", C.OUTAGE),
        ("server_error", C.OUTAGE),
    ],
)
def test_by_the_last_message(error: str, cause: Cause) -> None:
    assert verdict(init() + synthetic("no", error) + failed("no")).cause is cause


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("bypass_root", C.MISCONFIGURED),
        ("cwd_unavailable", C.INFRASTRUCTURE),
        ("gateway_signin_required", C.AUTH),
        ("worktree_unverified", C.OUTAGE),
        ("something_new", C.MISCONFIGURED),
    ],
)
def test_by_startup_failure(reason: str, cause: Cause) -> None:
    stream = result(
        is_error=True, subtype="error_during_execution", startup_failure_reason=reason, num_turns=0
    )
    assert verdict(stream, ChildExit(code=1)).cause is cause


@pytest.mark.parametrize("reason", ["prompt_too_long", "blocking_limit", "rapid_refill_breaker"])
def test_full_context_loses_the_session(reason: str) -> None:
    found = verdict(WORKED + result(is_error=True, result="no", terminal_reason=reason))
    assert (found.cause, found.session_lost) == (C.SESSION_LOST, True)


def test_failure_in_words_that_nobody_knows() -> None:
    """Without work done it waits, so that no wording can make a tight loop."""
    assert verdict(init() + failed("Computer says no")).cause is C.OUTAGE
    assert verdict(WORKED + failed("Computer says no")).cause is C.WORK_ERROR


def test_key_that_the_project_does_not_name() -> None:
    stream = init(apiKeySource="ANTHROPIC_API_KEY") + reply() + result()
    assert verdict(stream).status is S.SUCCESS
    found = verdict(stream, billing="subscription")
    assert found.cause is C.MISCONFIGURED
    assert "agent.pass_env" in found.error


def test_client_that_is_not_there() -> None:
    spawn = ChildExit(reason="spawn_failed", error="[Errno 2] No such file or directory: 'claude'")
    found = verdict(b"", spawn)
    assert found.cause is C.MISCONFIGURED
    assert "agent.command" in found.error
    assert "'claude'" in found.error
    shell = ChildExit(code=127)
    assert verdict(b"", shell, stderr="sh: claude: not found").cause is C.MISCONFIGURED


def test_end_during_a_tool_names_it() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    message = {"id": "m", "model": "claude-sonnet-4-6", "content": [use]}
    stream = init() + line(type="assistant", message=message)
    assert "while it ran Bash" in verdict(stream, ChildExit(signal=9)).error


OUTPUT_SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "there is none"),
        ({"structured_output": {}}, "output.ok is missing"),
        ({"structured_output": {"ok": "yes"}}, "output.ok must be boolean, not string"),
    ],
)
def test_output_that_does_not_fit(more: dict[str, Any], says: str) -> None:
    found = verdict(WORKED + result(**more), schema=OUTPUT_SCHEMA)
    assert (found.status, found.cause) == (S.SCHEMA_VIOLATION, C.INVALID_OUTPUT)
    assert says in found.error


@pytest.mark.parametrize("text", ['{"ok": true}', '```json\n{"ok": true}\n```'])
def test_output_written_out_instead_of_handed_in(text: str) -> None:
    found = verdict(WORKED + result(result=text), schema=OUTPUT_SCHEMA)
    assert found.structured_output == {"ok": True}


def test_error_is_one_bounded_line() -> None:
    found = verdict(WORKED + failed("a\nb\x1b[31m\u202e" + "c" * 100_000))
    assert found.error.isprintable()
    assert len(found.error) < 600


def background(status: str, **kind: str) -> bytes:
    started = line(
        type="system", subtype="task_started", task_id="t1", is_backgrounded=True, **kind
    )
    ended = line(type="system", subtype="task_notification", task_id="t1", status=status)
    return started + result() + ended


def test_success_while_a_subagent_was_cut_off_is_none() -> None:
    found = verdict(WORKED + background("stopped", subagent_type="worker"))
    assert (found.status, found.cause) == (S.FAILURE, C.INVALID_OUTPUT)
    assert "subagent" in found.error
    assert verdict(WORKED + background("completed", subagent_type="worker")).status is S.SUCCESS


def test_a_server_that_is_stopped_at_the_end_is_no_failure() -> None:
    assert verdict(WORKED + background("stopped", task_type="local_bash")).status is S.SUCCESS


def test_a_question_in_place_of_the_output_is_told() -> None:
    found = verdict(WORKED + result(result="Tabs or spaces?"), schema={"type": "object"})
    assert found.cause is C.INVALID_OUTPUT
    assert found.error.endswith("there is none: Tabs or spaces?")


def test_told_to_stop_after_its_end_it_takes_nothing_back() -> None:
    stop = result(
        is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming"
    )
    assert verdict(WORKED + result() + stop).status is S.SUCCESS
    ours = ChildExit(code=0, reason="stopped")
    assert verdict(WORKED + result() + init() + reply() + stop, ours).cause is C.INTERRUPTED


def test_an_interrupt_by_somebody_else_is_a_death_like_any_other() -> None:
    stop = result(
        is_error=True, subtype="error_during_execution", terminal_reason="aborted_streaming"
    )
    assert verdict(WORKED + stop, ChildExit(code=0)).cause is C.CRASH


def test_what_the_client_says_to_its_makers_is_not_quoted() -> None:
    ended = verdict(
        init()
        + reply()
        + result(
            subtype="error_during_execution",
            is_error=True,
            terminal_reason="aborted_tools",
            result=None,
            errors=["[ede_diagnostic] result_type=user stop_reason=tool_use"],
        ),
    )
    assert ended.error == "interrupted in the middle of its work"
