"""Sessions of the real client: chosen ids, resuming, interruption, and what is charged."""

import signal
from pathlib import Path

import pytest

from tests.loopback_api import Gate, Request, Text, ToolUse, Turn, Usage
from tests.real_client.client import new_session, wait_until
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

_SONNET = ("--model", "claude-sonnet-4-6")
_USAGE = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=2000, cache_write_tokens=300)


def _says_done(_: Request) -> Turn:
    return Turn((Text("Done."),), usage=_USAGE)


def test_a_chosen_session_id_is_used_and_resumed(connect: Connect) -> None:
    client, api = connect(_says_done)
    session = new_session()
    first = client.run(*_SONNET, "--session-id", session, prompt="One")
    second = client.run(*_SONNET, "--resume", session, prompt="Two")

    assert first.exit == second.exit == 0
    assert first.init["session_id"] == second.result["session_id"] == session
    assert api.requests[-1].prompts == ("One", "Two")
    assert len(client.transcripts(session)) == 1


def test_totals_are_cumulative_over_a_resumed_session(connect: Connect) -> None:
    client, _ = connect(_says_done)
    session = new_session()
    runs = [
        client.run(*_SONNET, "--session-id", session, prompt="One"),
        client.run(*_SONNET, "--resume", session, prompt="Two"),
        client.run(*_SONNET, "--resume", session, prompt="Three"),
    ]

    totals = [run.result["total_cost_usd"] for run in runs]
    assert totals[1] == pytest.approx(2 * totals[0])
    assert totals[2] == pytest.approx(3 * totals[0])
    (counters,) = runs[2].result["modelUsage"].values()
    assert counters["inputTokens"] == 3 * _USAGE.input_tokens
    assert counters["costUSD"] == pytest.approx(totals[2])
    assert runs[2].result["usage"]["input_tokens"] == _USAGE.input_tokens


def test_a_session_id_that_has_a_transcript_is_refused(connect: Connect) -> None:
    client, api = connect(_says_done)
    session = new_session()
    client.run("--session-id", session, prompt="One")
    again = client.run("--session-id", session, prompt="Two")

    assert again.exit == 1
    assert again.lines == ()
    assert f"Session ID {session} is already in use" in again.stderr
    assert len(api.requests) == 1


def test_an_unknown_session_cannot_be_resumed(connect: Connect) -> None:
    client, api = connect(_says_done)
    session = new_session()
    run = client.run("--resume", session, prompt="One")

    assert run.exit == 1
    assert run.result["subtype"] == "error_during_execution"
    assert run.result["errors"] == [f"No conversation found with session ID: {session}"]
    assert api.requests == []


def test_a_session_resumes_in_another_directory(connect: Connect, tmp_path: Path) -> None:
    client, api = connect(_says_done)
    session = new_session()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    client.run("--session-id", session, prompt="One")
    run = client.run("--resume", session, prompt="Two", cwd=elsewhere)

    assert run.exit == 0
    assert api.requests[-1].prompts == ("One", "Two")


def test_killed_before_its_first_request_it_leaves_the_id_free_or_resumable(
    connect: Connect,
) -> None:
    """Later there is a transcript, and it is the reverse: a driver must try both."""
    client, _ = connect(_says_done)
    session = new_session()
    child = client.start("--session-id", session, prompt="One")
    child.signal(signal.SIGKILL)
    assert child.wait().exit == -signal.SIGKILL

    assert client.transcripts(session) == []
    assert client.run("--resume", session, prompt="Two").exit == 1
    assert client.run("--session-id", session, prompt="Three").exit == 0


@pytest.mark.parametrize(
    ("number", "exit_code", "has_result"),
    [(signal.SIGINT, 0, True), (signal.SIGTERM, 143, False), (signal.SIGKILL, -9, False)],
)
def test_interrupted_in_a_tool_it_can_be_resumed(
    connect: Connect, number: signal.Signals, exit_code: int, has_result: bool
) -> None:
    def script(request: Request) -> Turn:
        if "start" in request.prompt and request.turn == 0:
            return Turn((ToolUse("Bash", {"command": "touch begun; sleep 300"}),))
        return Turn((Text("Done."),))

    client, api = connect(script)
    session = new_session()
    child = client.start("--session-id", session, "--allowedTools", "Bash", prompt="start")
    wait_until((client.work / "begun").exists, "the tool runs")
    tools = client.remember_descendants(child)
    child.signal(number)
    ended = child.wait()

    assert ended.exit == exit_code
    assert bool(ended.of_type("result")) is has_result
    if has_result:
        assert ended.result["is_error"] is True
        assert ended.result["subtype"] == "error_during_execution"
    survivors = [p for p in tools if p.is_running() and p.status() != "zombie"]
    assert bool(survivors) is (number == signal.SIGKILL), "only SIGKILL orphans its tools"

    resumed = client.run("--resume", session, prompt="go on")
    assert resumed.exit == 0
    assert api.requests[-1].prompts[0] == "start"


def test_killed_while_the_model_thinks_it_can_be_resumed(connect: Connect) -> None:
    gate = Gate()

    def script(request: Request) -> Turn:
        return Turn((Text("Done."),), gate=gate if request.number == 1 else None)

    client, api = connect(script)
    session = new_session()
    child = client.start("--session-id", session, prompt="One")
    gate.wait_for_arrival()
    # The transcript follows the first request, by about a tenth of a second.
    wait_until(lambda: client.transcripts(session) != [], "the transcript is there")
    child.signal(signal.SIGKILL)
    child.wait()

    assert client.run("--resume", session, prompt="Two").exit == 0
    assert api.requests[-1].prompts == ("One", "Two")
