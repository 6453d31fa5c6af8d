"""What the real client makes of the provider's answers, beyond what both agents promise."""

import time

import pytest

from tests.loopback_api import Drop, Failure, Reply, Request, Text, ToolUse, Turn, replies
from tests.real_client.client import SUBSCRIPTION, schema
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

_VERDICT = schema("approved", approved="boolean")
_ONE_RETRY = {"CLAUDE_CODE_MAX_RETRIES": "1"}


def _structured(value: dict[str, object]) -> Turn:
    return Turn((ToolUse("StructuredOutput", value),))


def test_an_invalid_structured_output_is_told_to_the_model(connect: Connect) -> None:
    def script(request: Request) -> Turn:
        return _structured({"approved": "yes" if request.turn == 0 else True})

    client, api = connect(script)
    run = client.run("--json-schema", _VERDICT, prompt="Review")

    assert run.result["structured_output"] == {"approved": True}
    assert "must be boolean" in api.requests[1].tool_results[0]


def test_a_model_that_only_talks_is_asked_for_the_structured_output(connect: Connect) -> None:
    def script(request: Request) -> Turn:
        if request.number == 1:
            return Turn((Text("It looks fine."),))
        return _structured({"approved": True})

    client, api = connect(script)
    run = client.run("--json-schema", _VERDICT, prompt="Review")

    assert run.result["structured_output"] == {"approved": True}
    assert len(api.requests) == 2


def test_a_subscription_says_its_windows(connect: Connect) -> None:
    resets_at = int(time.time()) + 3600
    headers = replies.windows(five_hour=0.42, seven_day=0.07, resets_at=resets_at)
    client, _ = connect(lambda _: Turn((Text("Done."),), headers=headers))
    run = client.run(prompt="Work", credential=SUBSCRIPTION)

    (event,) = run.of_type("rate_limit_event")
    windows = event["rate_limit_info"]["unifiedWindows"]
    assert windows["five_hour"]["utilization"] == 0.42
    assert windows["seven_day"]["utilization"] == 0.07
    assert event["rate_limit_info"]["resetsAt"] == resets_at
    assert run.init["apiKeySource"] == "none"


def test_a_full_week_ends_it_at_once(connect: Connect) -> None:
    client, api = connect(lambda _: replies.limit_reached(resets_in_s=3600, claim="seven_day"))
    run = client.run(prompt="Work", credential=SUBSCRIPTION)

    assert run.exit == 1
    assert (run.result["subtype"], run.result["is_error"]) == ("success", True)
    assert run.result["api_error_status"] == 429
    assert run.result["result"].startswith("You've hit your weekly limit")
    (event,) = run.of_type("rate_limit_event")
    assert event["rate_limit_info"]["status"] == "rejected"
    assert event["rate_limit_info"]["rateLimitType"] == "seven_day"
    assert len(api.requests) == 1, "it does not retry"


def test_throttling_looks_like_a_rejected_window_but_names_none(connect: Connect) -> None:
    """On a subscription a plain 429 also gives a ``rejected`` event: it is not a usage limit."""
    client, api = connect(lambda _: replies.throttled())
    run = client.run(prompt="Work", credential=SUBSCRIPTION, env=_ONE_RETRY)

    assert run.exit == 1
    (event,) = run.of_type("rate_limit_event")
    assert event["rate_limit_info"] == {"status": "rejected", "isUsingOverage": False}
    assert "not your usage limit" in run.result["result"]
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("reply", "status", "words"),
    [
        (replies.server_error(), 500, "API Error: 500"),
        (Drop(), None, "API Error: Connection dropped"),
    ],
    ids=["500", "drop"],
)
def test_an_outage_is_retried_and_then_told(
    connect: Connect, reply: Reply, status: int | None, words: str
) -> None:
    client, api = connect(lambda _: reply)
    run = client.run(prompt="Work", env=_ONE_RETRY)

    assert run.exit == 1
    assert (run.result["subtype"], run.result["is_error"]) == ("success", True)
    assert run.result["api_error_status"] == status
    assert run.result["terminal_reason"] == "api_error"
    assert run.result["result"].startswith(words)
    assert [line["attempt"] for line in run.lines if line.get("subtype") == "api_retry"] == [1]
    assert len(api.requests) == 2


@pytest.mark.parametrize("reply", [replies.overloaded(), Drop(mid_message=True)])
def test_an_outage_that_passes_is_not_told(connect: Connect, reply: Reply) -> None:
    client, _ = connect(lambda request: reply if request.number == 1 else Turn((Text("Done."),)))
    run = client.run(prompt="Work", env=_ONE_RETRY)

    assert run.exit == 0
    assert run.result["result"] == "Done."


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        (
            Failure(
                400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"
            ),
            "prompt_too_long",
            "Prompt is too long",
        ),
        (
            Failure(403, "permission_error", "Your account does not have access"),
            "api_error",
            "Failed to authenticate. API Error: 403",
        ),
        (
            Failure(404, "not_found_error", "model: no-such-model"),
            "api_error",
            "There's an issue with the selected model",
        ),
    ],
    ids=["too-long", "forbidden", "model"],
)
def test_what_no_retry_can_mend(connect: Connect, reply: Failure, reason: str, words: str) -> None:
    client, _ = connect(lambda _: reply)
    run = client.run(prompt="Work")

    assert run.exit == 1
    assert run.result["is_error"] is True
    assert run.result["api_error_status"] == reply.status
    assert run.result["terminal_reason"] == reason
    assert run.result["result"].startswith(words)
