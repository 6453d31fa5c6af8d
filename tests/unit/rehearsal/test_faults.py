"""Each failure that can be asked for, as a driver would see it."""

import json
import os
import signal
import time

import pytest

from adapters.execution.rehearsal.faults import KINDS
from tests.unit.rehearsal.agent import SESSION, Agent, Played, asks

SCHEMA = '{"type":"object","required":["summary"]}'


def play(agent: Agent, fault: str, *arguments: str) -> Played:
    agent.scenario.write_text(f"[[call]]\nfault = {{ {fault} }}\n")
    return agent.play(asks(), "--session-id", SESSION, *arguments)


@pytest.mark.parametrize(
    ("name", "api_status", "error", "words"),
    [
        ("throttled", 429, "rate_limit", "Request rejected (429)"),
        ("overloaded", 529, "server_error", "529 Overloaded"),
        ("unreachable", None, "server_error", "ECONNREFUSED"),
        ("auth_failed", 401, "authentication_failed", "Invalid API key"),
        ("not_logged_in", None, "authentication_failed", "Not logged in"),
        ("no_credit", 400, "billing_error", "Credit balance is too low"),
    ],
)
def test_an_api_error_is_a_success_that_is_an_error(
    agent: Agent, name: str, api_status: int | None, error: str, words: str
) -> None:
    played = play(agent, f'name = "{name}"')
    result = played.result
    assert (played.status, result["subtype"], result["is_error"]) == (1, "success", True)
    assert (result["api_error_status"], result["terminal_reason"]) == (api_status, "api_error")
    assert words in result["result"]
    assert (played.of_type("assistant")[-1]["error"], result["total_cost_usd"]) == (error, 0)


def test_a_used_up_window_is_rejected_until_its_reset(agent: Agent) -> None:
    before = time.time()
    played = play(agent, 'name = "rate_limited", resets_in_s = 90')
    (event,) = played.of_type("rate_limit_event")
    info = event["rate_limit_info"]
    assert info["status"] == "rejected"
    assert before + 88 <= info["resetsAt"] <= time.time() + 90
    assert played.result["result"].startswith("You've hit your 5-hour limit · resets ")


def test_a_fault_of_the_first_start_is_gone_at_the_second(agent: Agent) -> None:
    agent.scenario.write_text('call = [{ start = 1, fault = "overloaded" }]')
    assert agent.play(asks(), "--session-id", SESSION).status == 1
    assert agent.play(asks(), "--resume", SESSION).status == 0


def test_success_without_work(agent: Agent) -> None:
    played = play(agent, 'name = "zero_work"')
    assert (played.status, played.result["num_turns"], played.of_type("assistant")) == (0, 0, [])


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ('name = "crash"', -signal.SIGKILL),
        ('name = "crash_in_tool", delay_s = 0, seconds = 1', -signal.SIGKILL),
        ('name = "exit_without_result"', 0),
        ('name = "no_result"', 0),
        ('name = "no_result", status = 3', 3),
    ],
)
def test_ends_without_a_result(agent: Agent, fault: str, status: int) -> None:
    played = play(agent, fault)
    assert (played.status, played.of_type("result")) == (status, [])
    assert played.of_type("assistant")


def test_ends_before_it_has_said_anything(agent: Agent) -> None:
    played = play(agent, 'name = "exit_at_once", status = 7, stderr = "no\\n"')
    assert played == Played(7, b"", "no\n")
    assert agent.transcript(SESSION) is None


def test_a_truncated_tail_is_half_a_line(agent: Agent) -> None:
    played = play(agent, 'name = "truncated_tail"')
    whole, torn = played.stdout.rsplit(b"\n", 1)
    assert all(json.loads(line) for line in whole.splitlines())
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(torn)


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("max_turns", "error_max_turns"), ("max_budget", "error_max_budget_usd")],
)
def test_limits_on_request(agent: Agent, name: str, subtype: str) -> None:
    played = play(agent, f'name = "{name}"')
    assert (played.status, played.result["subtype"]) == (1, subtype)


def test_an_output_that_does_not_fit(agent: Agent) -> None:
    played = play(agent, 'name = "schema_violation"', "--json-schema", SCHEMA)
    assert played.result["subtype"] == "error_max_structured_output_retries"


def test_an_output_that_is_missing(agent: Agent) -> None:
    played = play(agent, 'name = "schema_missing"', "--json-schema", SCHEMA)
    assert (played.status, played.result["subtype"]) == (0, "success")
    assert "structured_output" not in played.result


@pytest.mark.parametrize("name", ["noise", "unknown_types", "split_characters", "limit_words"])
def test_odd_lines_do_not_hide_the_result(agent: Agent, name: str) -> None:
    played = play(agent, f'name = "{name}"')
    assert played.status == 0
    last = json.loads(played.stdout.splitlines()[-1])
    assert (last["type"], last["is_error"]) == ("result", False)


def test_a_huge_line(agent: Agent) -> None:
    played = play(agent, 'name = "huge_line", bytes = 3000000')
    assert max(map(len, played.stdout.splitlines())) > 3_000_000


def test_a_flood_of_standard_error(agent: Agent) -> None:
    played = play(agent, 'name = "stderr_flood", bytes = 300000')
    assert (played.status, len(played.stderr) >= 300_000) == (0, True)


def test_two_results(agent: Agent) -> None:
    played = play(agent, 'name = "two_results"')
    assert [r["result_index"] for r in played.of_type("result")] == [0, 1]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ('name = "wrong_status", status = 4', 4),
        ('name = "killed_after_result"', -signal.SIGKILL),
        ('name = "hang_after_result", seconds = 0.01', 0),
        ('name = "retries", delay_s = 0.01', 0),
        ('name = "slow", seconds = 0.01', 0),
        ('name = "silent_start", seconds = 0.01', 0),
        ('name = "hang", seconds = 0.01', 0),
    ],
)
def test_the_result_stands_whatever_the_exit_status(agent: Agent, fault: str, status: int) -> None:
    played = play(agent, fault)
    assert (played.status, played.result["is_error"]) == (status, False)


def test_acts_after_as_many_steps_as_asked(agent: Agent) -> None:
    agent.scenario.write_text(
        """
        [[call]]
        do = [{ write = "a", text = "" }, { write = "b", text = "" }]
        fault = { name = "crash", after = 1 }
        """
    )
    agent.play(asks(), "--permission-mode", "acceptEdits")
    assert sorted(p.name for p in agent.cwd.iterdir()) == ["a"]


def test_signals_can_be_ignored(agent: Agent) -> None:
    fault = '{ name = "ignores_signals", seconds = 0.3 }'
    agent.scenario.write_text(f"call = [{{ fault = {fault} }}]")
    child = agent.start(asks(), "--session-id", SESSION)
    assert child.stdout is not None
    while b"I do not listen." not in (line := child.stdout.readline()):
        assert line
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGINT)
    assert b'"is_error":false' in child.communicate()[0]
    assert child.returncode == 0


def test_a_grandchild_keeps_standard_output_open(agent: Agent) -> None:
    agent.scenario.write_text(
        'call = [{ fault = { name = "grandchild_holds_stdout", seconds = 60 } }]'
    )
    child = agent.start(asks())
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    assert child.wait() == 0
    output = child.stdout.read()
    assert b'"type":"result"' in output
    assert child.stdout.read() is None  # would block: somebody holds it
    child.stdout.close()


def test_each_fault_says_what_it_does() -> None:
    assert all(kind.about.endswith((".", ")")) for kind in KINDS.values())
