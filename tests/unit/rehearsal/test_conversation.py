"""One call after another, as real processes: lines, files, sessions, money, signals."""

import json
import os
import select
import signal
import time

import pytest

from orchestrator.core.model import Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from tests.unit.rehearsal.agent import DONE_WITHIN_S, OTHER, SESSION, Agent, asks

SCHEMA = json.dumps(OUTPUT_SCHEMAS[Stage.IMPLEMENT])
WORK = """
[[call]]
task = "T1"
say = "To work."
tokens = { input = 100, output = 1000, cache_read = 20000, cache_write = 3001 }
do = [
    { write = "src/a.py", text = "a = 1\\n" },
    { edit = "src/a.py", old = "1", new = "2" },
    { run = "cat src/a.py" },
]
"""
WORK_USD = (100 * 3 + 1000 * 15 + 20000 * 0.3 + 3001 * 3.75) / 1e6
FREE = ("--permission-mode", "bypassPermissions")


def test_does_the_work_and_says_so_in_the_clients_order(agent: Agent) -> None:
    agent.scenario.write_text(WORK + "[account]\nfive_hour = 0.25\n")
    played = agent.play(asks(), "--session-id", SESSION, "--json-schema", SCHEMA, *FREE)
    assert played.status == 0
    assert [line["type"] for line in played.lines] == [
        "system",
        "assistant",  # says something
        *("assistant", "rate_limit_event", "user"),  # writes
        *("assistant", "user"),  # edits
        *("assistant", "user"),  # runs
        *("assistant", "user"),  # answers
        "result",
    ]
    assert (agent.cwd / "src" / "a.py").read_text() == "a = 2\n"
    assert played.of_type("user")[2]["message"]["content"][0]["content"] == "a = 2"
    assert played.result["structured_output"]["files_changed"] == ["src/a.py"]
    assert json.loads(played.result["result"]) == played.result["structured_output"]
    assert {line["session_id"] for line in played.lines} == {SESSION}


def test_totals_are_the_sessions_and_usage_is_this_calls(agent: Agent) -> None:
    agent.scenario.write_text(WORK)
    results = [
        agent.play(asks(), how, SESSION, *FREE).result
        for how in ("--session-id", "--resume", "--resume")
    ]
    assert [r["total_cost_usd"] for r in results] == pytest.approx(
        [WORK_USD, 2 * WORK_USD, 3 * WORK_USD]
    )
    last = results[-1]
    assert last["usage"]["cache_creation_input_tokens"] == 3001
    assert last["modelUsage"]["claude-sonnet-4-6"]["cacheCreationInputTokens"] == 3 * 3001
    since = last["model_usage_since_last_result"]["claude-sonnet-4-6"]
    assert since["costUSD"] == pytest.approx(WORK_USD)


def test_a_session_id_is_used_once_and_resumed_afterwards(agent: Agent) -> None:
    assert agent.play(asks(), "--session-id", SESSION).status == 0
    again = agent.play(asks(), "--session-id", SESSION)
    assert (again.status, again.stdout) == (1, b"")
    assert again.stderr == f"Error: Session ID {SESSION} is already in use.\n"
    unknown = agent.play(asks(), "--resume", OTHER)
    words = f"No conversation found with session ID: {OTHER}"
    assert (unknown.status, unknown.stderr) == (1, words + "\n")
    assert unknown.result["subtype"] == "error_during_execution"
    assert unknown.result["errors"] == [words]


def test_killed_at_once_a_session_is_not_there_yet_and_a_little_later_it_is(agent: Agent) -> None:
    agent.scenario.write_text('transcript_after_s = 30\ncall = [{ fault = "hang" }]')
    with agent.start(asks(), "--session-id", SESSION) as early:
        assert early.stdout is not None
        assert json.loads(early.stdout.readline())["subtype"] == "init"
        early.kill()
    assert agent.transcript(SESSION) is None
    agent.scenario.write_text('call = [{ fault = "hang" }]')
    with agent.start(asks(), "--session-id", SESSION) as late:
        assert late.stdout is not None
        for line in late.stdout:  # the work's own lines: the transcript is there
            if json.loads(line)["type"] == "user":
                break
        late.kill()
    assert agent.transcript(SESSION) is not None
    agent.scenario.write_text("")
    assert agent.play(asks(), "--resume", SESSION).status == 0


def test_a_session_is_written_down_a_while_after_the_init_line(agent: Agent) -> None:
    agent.scenario.write_text("transcript_after_s = 0.25")
    with agent.start(asks(), "--session-id", SESSION) as child:
        assert child.stdout is not None
        child.stdout.readline()
        begun = time.monotonic()
        child.stdout.readline()
        assert time.monotonic() - begun > 0.2


def test_a_limit_on_money_or_turns_ends_the_call(agent: Agent) -> None:
    agent.scenario.write_text(WORK)
    poor = agent.play(asks(), "--max-budget-usd", "0.001", *FREE)
    assert (poor.status, poor.result["subtype"]) == (1, "error_max_budget_usd")
    assert poor.result["errors"] == ["Reached maximum budget ($0.001)"]
    assert poor.result["total_cost_usd"] > 0.001
    short = agent.play(asks(), "--max-turns", "2", *FREE)
    assert (short.status, short.result["subtype"]) == (1, "error_max_turns")
    assert short.result["num_turns"] == 3


def test_a_budget_counts_this_process_and_not_its_session(agent: Agent) -> None:
    agent.scenario.write_text(WORK)
    limit = ("--max-budget-usd", f"{WORK_USD * 1.5:.6f}", *FREE)
    assert agent.play(asks(), "--session-id", SESSION, *limit).status == 0
    assert agent.play(asks(), "--resume", SESSION, *limit).status == 0


def test_an_output_that_does_not_fit_is_tried_five_times(agent: Agent) -> None:
    agent.scenario.write_text("[[call]]\noutput.summary = 3\n")
    played = agent.play(asks(), "--json-schema", SCHEMA)
    assert played.status == 1
    assert played.result["subtype"] == "error_max_structured_output_retries"
    offered = [b for line in played.of_type("user") for b in line["message"]["content"]]
    assert sum("does not match" in block["content"] for block in offered) == 5


def test_a_tool_that_is_not_permitted_is_refused_and_the_call_goes_on(agent: Agent) -> None:
    agent.scenario.write_text(WORK)
    played = agent.play(asks(), "--tools", "Read,Bash", "--permission-mode", "acceptEdits")
    assert played.status == 0
    assert [d["tool_name"] for d in played.result["permission_denials"]] == [
        "Write",
        "Edit",
        "Bash",
    ]
    assert not (agent.cwd / "src").exists()


def test_a_prompt_without_markers_goes_on_with_what_its_session_was_asked(agent: Agent) -> None:
    agent.scenario.write_text('call = [{ task = "T7", last_words = "Seventh." }]')
    assert agent.play(asks("T7"), "--session-id", SESSION).result["result"] == "Seventh."
    assert agent.play("Go on.", "--resume", SESSION).result["result"] == "Seventh."


def test_an_empty_prompt_is_refused(agent: Agent) -> None:
    played = agent.play(" \n")
    assert played.status == 1
    assert played.stderr.startswith("Error: Input must be provided")


def test_a_mistake_in_the_scenario_is_one_line(agent: Agent) -> None:
    agent.scenario.write_text('call = [{ fault = "hangs" }]')
    played = agent.play(asks())
    assert played.status == 1
    assert played.stderr.startswith("rehearsal: unknown fault 'hangs'; known: ")
    assert played.stderr.count("\n") == 1


SLEEPS = 'call = [{ do = [{ run = "echo $$ > pid; exec sleep 60" }] }]'


def started_tool(agent: Agent) -> int:
    """The tool's pid, as soon as it has said it."""
    with open(os.open(agent.cwd / "pid", os.O_RDONLY | os.O_NONBLOCK), "rb") as fifo:
        ready, _, _ = select.select([fifo], [], [], DONE_WITHIN_S)
        assert ready
        return int(fifo.read())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "status", "last", "tool_survives"),
    [
        (signal.SIGINT, 0, "result", False),
        (signal.SIGTERM, 143, "user", False),
        (signal.SIGKILL, -9, "assistant", True),
    ],
)
def test_signals_in_the_middle_of_a_tool(
    agent: Agent, number: signal.Signals, status: int, last: str, tool_survives: bool
) -> None:
    agent.scenario.write_text(SLEEPS)
    os.mkfifo(agent.cwd / "pid")
    child = agent.start(asks(), "--session-id", SESSION, *FREE)
    tool = started_tool(agent)
    child.send_signal(number)
    stdout, _ = child.communicate()
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert (child.returncode, lines[-1]["type"]) == (status, last)
    if last == "result":
        assert lines[-1]["subtype"] == "error_during_execution"
        assert lines[-1]["terminal_reason"] == "aborted_tools"
    assert is_running(tool) is tool_survives
    if tool_survives:
        os.kill(tool, signal.SIGKILL)
    (agent.cwd / "pid").unlink()
    agent.scenario.write_text("")
    assert agent.play(asks(), "--resume", SESSION).status == 0
