"""How a call ends, for both agents: what a driver reads its verdict from."""

import time

import pytest

from tests.loopback_api import ToolUse
from tests.real_client.agents import LIMIT_RESETS_IN_S, Act, Agent, Trouble
from tests.real_client.client import SUBSCRIPTION, schema

_VERDICT = ("--json-schema", schema("approved", approved="boolean"))
_READ_BY_DRIVER = {
    *("type", "subtype", "is_error", "api_error_status", "terminal_reason", "result"),
    *("session_id", "num_turns", "total_cost_usd", "usage", "modelUsage", "permission_denials"),
}


def test_a_success_says_all_that_a_driver_reads(agent: Agent) -> None:
    run = agent.run(Act(steps=(ToolUse("Bash", {"command": "ls"}),)), "--allowedTools", "Bash")

    assert run.exit == 0
    assert set(run.result) >= _READ_BY_DRIVER
    assert (run.result["subtype"], run.result["is_error"]) == ("success", False)
    assert run.result["terminal_reason"] == "completed"
    assert run.lines[0]["subtype"] == "init"
    assert run.init["apiKeySource"] == "ANTHROPIC_API_KEY"
    assert [line["type"] for line in run.lines[1:]] == ["assistant", "user", "assistant", "result"]
    assert run.of_type("rate_limit_event") == [], "a key has no windows"


def test_structured_output_is_an_object_in_the_result(agent: Agent) -> None:
    run = agent.run(Act(output={"approved": True}), *_VERDICT)

    assert run.exit == 0
    assert run.result["structured_output"] == {"approved": True}


def test_five_invalid_structured_outputs_end_it_and_are_charged(agent: Agent) -> None:
    run = agent.run(Act(output={"approved": "yes"}), *_VERDICT)

    assert run.exit == 1
    assert run.result["is_error"] is True
    assert run.result["subtype"] == "error_max_structured_output_retries"
    assert "structured_output" not in run.result
    assert run.result["total_cost_usd"] > 0


def test_the_budget_ends_it_after_the_turn_that_passed_it(agent: Agent) -> None:
    works = Act(steps=(ToolUse("Bash", {"command": "ls"}),) * 2)
    run = agent.run(works, "--max-budget-usd", "0.0001", "--allowedTools", "Bash")

    assert run.exit == 1
    assert run.result["is_error"] is True
    assert run.result["subtype"] == "error_max_budget_usd"
    assert run.result["total_cost_usd"] > 0.0001


def test_a_full_window_ends_it_at_once_and_says_until_when(agent: Agent) -> None:
    before = time.time()
    run = agent.run(Act(trouble=Trouble.LIMIT), credential=SUBSCRIPTION)

    assert run.exit == 1
    assert (run.result["subtype"], run.result["is_error"]) == ("success", True)
    assert run.result["api_error_status"] == 429
    assert run.result["result"].startswith("You've hit your 5-hour limit · resets ")
    (event,) = run.of_type("rate_limit_event")
    said = event["rate_limit_info"]
    assert (said["status"], said["rateLimitType"]) == ("rejected", "five_hour")
    assert said["resetsAt"] == pytest.approx(before + LIMIT_RESETS_IN_S, abs=30)
    assert run.init["apiKeySource"] == "none"


@pytest.mark.parametrize(
    ("trouble", "status", "words"),
    [
        (Trouble.THROTTLED, 429, "API Error: Request rejected (429)"),
        (Trouble.OVERLOADED, 529, "API Error: 529 Overloaded"),
        (Trouble.UNAUTHORIZED, 401, "Invalid API key"),
        (Trouble.NO_CREDIT, 400, "Credit balance is too low"),
    ],
)
def test_what_the_provider_refuses_is_a_success_that_is_an_error(
    agent: Agent, trouble: Trouble, status: int, words: str
) -> None:
    run = agent.run(Act(trouble=trouble))

    assert run.exit == 1
    assert (run.result["subtype"], run.result["is_error"]) == ("success", True)
    assert run.result["api_error_status"] == status
    assert run.result["terminal_reason"] == "api_error"
    assert run.result["result"].startswith(words)
    assert run.result["total_cost_usd"] == 0
    retries = [line for line in run.lines if line.get("subtype") == "api_retry"]
    assert all(retry["error_status"] == status for retry in retries)
    assert retries or trouble is not Trouble.OVERLOADED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--no-such-option",), "error: unknown option '--no-such-option'"),
        (("--session-id", "T1"), "Invalid session ID"),
        (("--permission-mode", "sometimes"), "argument 'sometimes' is invalid"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(
    agent: Agent, arguments: tuple[str, ...], words: str
) -> None:
    run = agent.run(Act(), *arguments)

    assert run.exit == 1
    assert run.lines == ()
    assert words in run.stderr


def test_an_empty_prompt_is_refused(agent: Agent) -> None:
    run = agent.run(Act(), prompt="")

    assert run.exit == 1
    assert run.lines == ()
    assert "Input must be provided" in run.stderr
