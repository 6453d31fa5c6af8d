"""A child's raw output as a person reads it."""

import json

import pytest

from drivers.cli.activity import readable


def shown(*messages: object) -> list[str]:
    return [text for each in messages for text in readable(json.dumps(each).encode())]


def test_a_stage_reads_like_a_conversation() -> None:
    tool = {"type": "tool_use", "name": "Bash", "input": {"command": "ls\n-l"}}
    answer = {"type": "tool_result", "content": [{"type": "text", "text": "a  b"}]}
    assert shown(
        {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "Now"}, tool]}},
        {"type": "user", "message": {"content": [answer]}},
        {"type": "result", "subtype": "success", "num_turns": 2, "total_cost_usd": 0.5},
    ) == [
        "· session s, m",
        "Now",
        "> Bash ls -l",
        "< a b",
        "= success, 2 turns, session total 0.5000 USD",
    ]


def test_an_error_is_no_success_whatever_its_subtype_says() -> None:
    assert shown(
        {"type": "result", "subtype": "success", "is_error": True, "terminal_reason": "api_error"}
    ) == ["= api_error, ? turns"]


def test_an_engine_stage_shows_its_commands_output() -> None:
    assert shown(
        {"type": "step", "name": "test"},
        {"type": "output", "name": "test", "text": "1 failed\n2 passed"},
        {"type": "stage_result", "status": "failure", "error": "tests failed"},
    ) == ["· test", "  1 failed", "  2 passed", "= failure tests failed"]


def test_what_an_agent_writes_drives_no_terminal() -> None:
    (line,) = shown(
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "\x1b[2J\x07"}]}}
    )
    assert line == "?[2J?"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b'{"type":"assistant"',
        b"[1]",
        b"null",
        b"\xff\xfe",
        b'{"type":"assistant","message":null}',
        b'{"type":"assistant","message":{"content":[1,{"type":"tool_use"}]}}',
        b'{"type":"user","message":{"content":[{"type":"tool_result","content":null}]}}',
        b'{"type":{}}',
        b'{"type":"result"}',
    ],
)
def test_nothing_is_too_odd_to_be_passed_over(line: bytes) -> None:
    assert all("\n" not in text for text in readable(line))
