"""Sessions, for both agents: chosen ids, resuming, interruption, and what is charged."""

import signal
from pathlib import Path

import pytest

from tests.loopback_api import ToolUse
from tests.real_client.agents import PROMPT, Act, Agent
from tests.real_client.client import new_session, wait_until

_SONNET = ("--model", "claude-sonnet-4-6")
_NOTHING = Act()


def test_a_chosen_session_id_is_used_and_resumed(agent: Agent) -> None:
    session = new_session()
    first = agent.run(_NOTHING, "--session-id", session)
    second = agent.run(_NOTHING, "--resume", session)

    assert first.exit == second.exit == 0
    assert first.init["session_id"] == first.result["session_id"] == session
    assert second.init["session_id"] == second.result["session_id"] == session
    assert len(agent.transcripts(session)) == 1


def test_totals_are_cumulative_over_a_resumed_session(agent: Agent) -> None:
    session = new_session()
    runs = [
        agent.run(_NOTHING, *_SONNET, "--session-id", session),
        agent.run(_NOTHING, *_SONNET, "--resume", session),
        agent.run(_NOTHING, *_SONNET, "--resume", session),
    ]

    first, second, third = (run.result["total_cost_usd"] for run in runs)
    assert first > 0
    assert second == pytest.approx(2 * first)
    assert third == pytest.approx(3 * first)
    (counters,) = runs[2].result["modelUsage"].values()
    own = runs[2].result["usage"]
    assert counters["costUSD"] == pytest.approx(third)
    assert counters["outputTokens"] == 3 * own["output_tokens"]
    assert counters["inputTokens"] == 3 * own["input_tokens"]


def test_a_session_id_that_has_a_transcript_is_refused(agent: Agent) -> None:
    session = new_session()
    agent.run(_NOTHING, "--session-id", session)
    again = agent.run(_NOTHING, "--session-id", session)

    assert again.exit == 1
    assert again.lines == ()
    assert f"Session ID {session} is already in use" in again.stderr


def test_an_unknown_session_cannot_be_resumed(agent: Agent) -> None:
    session = new_session()
    run = agent.run(_NOTHING, "--resume", session)

    assert run.exit == 1
    assert run.result["subtype"] == "error_during_execution"
    assert run.result["errors"] == [f"No conversation found with session ID: {session}"]
    assert run.result["total_cost_usd"] == 0


def test_a_session_resumes_in_another_directory(agent: Agent, tmp_path: Path) -> None:
    session = new_session()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    agent.run(_NOTHING, "--session-id", session)
    run = agent.run(_NOTHING, "--resume", session, cwd=elsewhere)

    assert run.exit == 0
    assert run.result["session_id"] == session


def test_killed_at_once_it_leaves_the_id_free(agent: Agent) -> None:
    """Later there is a transcript, and it is the reverse: a driver must try both."""
    session = new_session()
    child = agent.start(_NOTHING, "--session-id", session)
    child.signal(signal.SIGKILL)
    assert child.wait().exit == -signal.SIGKILL

    assert agent.transcripts(session) == []
    assert agent.run(_NOTHING, "--resume", session).exit == 1
    assert agent.run(_NOTHING, "--session-id", session).exit == 0


@pytest.mark.parametrize(
    ("number", "exit_code", "has_result"),
    [(signal.SIGINT, 0, True), (signal.SIGTERM, 143, False), (signal.SIGKILL, -9, False)],
)
def test_interrupted_in_a_tool_it_can_be_resumed(
    agent: Agent, number: signal.Signals, exit_code: int, has_result: bool
) -> None:
    waits = Act(steps=(ToolUse("Bash", {"command": "touch begun; sleep 300"}),))
    session = new_session()
    child = agent.start(waits, "--session-id", session, "--allowedTools", "Bash")
    wait_until((agent.work / "begun").exists, "the tool runs")
    tools = child.note_descendants()
    child.signal(number)
    ended = child.wait()

    assert ended.exit == exit_code
    assert bool(ended.of_type("result")) is has_result
    if has_result:
        assert ended.result["is_error"] is True
        assert ended.result["subtype"] == "error_during_execution"

    def survive() -> bool:
        return any(p.is_running() and p.status() != "zombie" for p in tools)

    if number == signal.SIGKILL:
        assert survive(), "only SIGKILL orphans its tools"
    else:
        wait_until(lambda: not survive(), "its tools are gone")
    assert agent.run(_NOTHING, "--resume", session, prompt=f"{PROMPT}Go on.").exit == 0


def test_what_a_killed_call_used_is_in_no_later_total(agent: Agent) -> None:
    """So a driver has to charge it by what was said, or nobody does."""
    waits = Act(steps=(ToolUse("Bash", {"command": "touch begun; sleep 300"}),))
    session = new_session()
    child = agent.start(waits, *_SONNET, "--session-id", session, "--allowedTools", "Bash")
    wait_until((agent.work / "begun").exists, "the tool runs")
    child.note_descendants()
    child.signal(signal.SIGKILL)
    child.wait()
    resumed = [agent.run(_NOTHING, *_SONNET, "--resume", session) for _ in range(2)]

    first, second = (run.result["total_cost_usd"] for run in resumed)
    assert first > 0
    assert second == pytest.approx(2 * first)
    (since,) = resumed[0].result["model_usage_since_last_result"].values()
    assert since["costUSD"] == pytest.approx(first)
