"""What a model may do headless, for both agents: no question is ever waited on."""

from tests.loopback_api import ToolUse
from tests.real_client.agents import Act, Agent
from tests.real_client.client import Ran, schema

_WORK_TOOLS = ("--tools", "Read,Grep,Glob,Bash,Edit,Write")
_WRITES = Act(
    steps=(
        ToolUse("Write", {"file_path": "written.txt", "content": "x"}),
        ToolUse("Bash", {"command": "python3 -c \"open('python.txt', 'w')\""}),
        ToolUse("Bash", {"command": "git init -q made"}),
    ),
    output={"feasible": True},
)


def _files(agent: Agent) -> list[str]:
    return sorted(path.name for path in agent.work.iterdir())


def _denied(run: Ran) -> list[str]:
    return [denial["tool_name"] for denial in run.result["permission_denials"]]


def test_a_list_of_reading_tools_leaves_no_way_to_write(agent: Agent) -> None:
    reading = ("--tools", "Read,Grep,Glob", "--json-schema", schema("feasible", feasible="boolean"))
    run = agent.run(_WRITES, *reading)

    assert run.exit == 0
    assert _files(agent) == []
    assert {"Bash", "Write", "Edit", "Task"}.isdisjoint(run.init["tools"])
    results = [line["message"]["content"][0] for line in run.of_type("user")]
    assert ["No such tool available" in result["content"] for result in results[:3]] == [True] * 3
    assert run.result["structured_output"] == {"feasible": True}


def test_dont_ask_refuses_writes_and_keeps_the_tools(agent: Agent) -> None:
    """The way to forbid writing that keeps the request's prefix, so the prompt cache."""
    asked = (*_WORK_TOOLS, "--permission-mode", "dontAsk", "--allowedTools", "Read,Grep,Glob")
    run = agent.run(_WRITES, *asked)

    assert run.exit == 0
    assert _files(agent) == []
    assert _denied(run) == ["Write", "Bash", "Bash"]
    assert {"Bash", "Write", "Edit"} <= set(run.init["tools"])


def test_accept_edits_writes_files_and_runs_only_what_is_allowed(agent: Agent) -> None:
    asked = (*_WORK_TOOLS, "--permission-mode", "acceptEdits", "--allowedTools", "Bash(git *)")
    run = agent.run(_WRITES, *asked, "--permission-prompts", "none")

    assert run.exit == 0
    assert _files(agent) == ["made", "written.txt"]
    assert _denied(run) == ["Bash"]


def test_a_question_that_nobody_can_answer_is_denied_at_once(agent: Agent) -> None:
    run = agent.run(_WRITES, *_WORK_TOOLS)

    assert run.exit == 0
    assert run.result["is_error"] is False, "a denial is not an error: evidence has to show it"
    assert _denied(run) == ["Write", "Bash", "Bash"]
    assert run.duration_s < 20
