"""The scripted API itself, asked without the client."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest

from tests.loopback_api import Drop, LoopbackApi, Reply, Request, Text, ToolUse, Turn, replies
from tests.loopback_api.requests import parse, shared_prefix_bytes

_PROMPT = "Task: T1\nStage: implement\nAttempt: 1\n\nDo it."


def _body(*messages: Mapping[str, Any], tools: tuple[str, ...] = ("Read",)) -> dict[str, Any]:
    return {
        "model": "m",
        "stream": True,
        "system": [{"type": "text", "text": "You are.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": name, "input_schema": {}} for name in tools],
        "messages": list(messages),
    }


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _request(*messages: Mapping[str, Any], tools: tuple[str, ...] = ("Read",)) -> Request:
    raw = json.dumps(_body(*messages, tools=tools)).encode()
    return parse(number=1, path="/v1/messages", headers={"X-Api-Key": "secret"}, raw=raw, at=0.0)


_SPOKE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read"}]}
_RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "text"}],
}


def _post(api: LoopbackApi, body: Mapping[str, Any]) -> bytes:
    request = urllib.request.Request(
        f"{api.url}/v1/messages?beta=true",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        data: bytes = answer.read()
        return data


def _events(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]


def test_the_prompt_is_what_the_driver_wrote() -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nhello\n</system-reminder>"}
    first = {"role": "user", "content": [reminder, {"type": "text", "text": _PROMPT}]}
    demand = _user("[structured-output-enforce] You MUST call the tool.")
    request = _request(first, _SPOKE, _RESULT, _SPOKE, demand)

    assert request.prompts == (_PROMPT,)
    assert (request.task, request.stage) == ("T1", "implement")
    assert request.turn == 2
    assert request.tool_results == ("text",)


def test_a_quoted_header_is_not_the_prompts_own() -> None:
    assert _request(_user("> Task: T9\n> Stage: review")).task == ""


def test_the_credential_is_not_kept() -> None:
    assert "secret" not in str(_request(_user("hello")).headers)


def test_prefixes_are_compared_in_the_cache_s_order_and_without_its_marks() -> None:
    one = _request(_user("One"))
    longer = _request(_user("One"), _SPOKE, _RESULT)
    other_tools = _request(_user("One"), tools=("Bash", "Read"))

    assert shared_prefix_bytes(one, longer) == len(one.cache_prefix())
    assert b"cache_control" not in one.cache_prefix()
    assert shared_prefix_bytes(one, other_tools) < len(b'{"input_schema": {}, "name": "Read"')


def test_a_turn_is_streamed_with_its_usage() -> None:
    turn = Turn((Text("Look."), ToolUse("Bash", {"command": "ls"})))
    with LoopbackApi(lambda _: turn) as api:
        events = _events(_post(api, _body(_user("Go"))))

    kinds = [event["type"] for event in events]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == turn.usage.output_tokens
    assert json.loads(events[5]["delta"]["partial_json"]) == {"command": "ls"}


def test_a_request_without_streaming_gets_one_message() -> None:
    with LoopbackApi(lambda _: Turn((Text("Done."),))) as api:
        message = json.loads(_post(api, {**_body(_user("Go")), "stream": False}))

    assert message["content"] == [{"type": "text", "text": "Done."}]
    assert message["stop_reason"] == "end_turn"


def test_a_limit_says_when_it_resets() -> None:
    with (
        LoopbackApi(lambda _: replies.limit_reached(resets_in_s=60)) as api,
        pytest.raises(urllib.error.HTTPError) as refused,
    ):
        _post(api, _body(_user("Go")))

    with refused.value as answer:
        assert answer.code == 429
        assert answer.headers["anthropic-ratelimit-unified-status"] == "rejected"
        assert json.loads(answer.read())["error"]["type"] == "rate_limit_error"


def test_a_dropped_connection_has_no_answer() -> None:
    with LoopbackApi(lambda _: Drop()) as api, pytest.raises((ConnectionError, OSError)):
        _post(api, _body(_user("Go")))


def test_what_a_script_raises_is_kept_and_is_not_retried() -> None:
    def broken(_: Request) -> Reply:
        raise KeyError("no such stage")

    with LoopbackApi(broken) as api:
        with pytest.raises(urllib.error.HTTPError) as refused:
            _post(api, _body(_user("Go")))
        with refused.value as answer:
            assert answer.code == 400

    assert [type(error) for error in api.errors] == [KeyError]
