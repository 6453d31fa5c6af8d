"""What the real client lets a model do, headless: no question is ever waited on."""

import json

import pytest

from tests.loopback_api import Request, Text, ToolUse, Turn
from tests.loopback_api.server import Script
from tests.real_client.client import Client, Ran, schema
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

_WORK_TOOLS = ("--tools", "Read,Grep,Glob,Bash,Edit,Write")
_WRITES = (
    ToolUse("Write", {"file_path": "written.txt", "content": "x"}),
    ToolUse("Bash", {"command": "echo x > redirected.txt"}),
    ToolUse("Bash", {"command": "python3 -c \"open('python.txt', 'w')\""}),
    ToolUse("Bash", {"command": "git init -q made"}),
)


def _does(*uses: ToolUse) -> Script:
    """One tool after the other, then the end, structured where it is asked for."""

    def script(request: Request) -> Turn:
        if request.turn < len(uses):
            return Turn((uses[request.turn],))
        if request.output_schema is not None:
            return Turn((ToolUse("StructuredOutput", {"feasible": True}),))
        return Turn((Text("Done."),))

    return script


def _files(client: Client) -> list[str]:
    return sorted(path.name for path in client.work.iterdir())


def _denied(run: Ran) -> list[str]:
    return [denial["tool_name"] for denial in run.result["permission_denials"]]


def test_a_list_of_reading_tools_leaves_no_way_to_write(connect: Connect) -> None:
    client, api = connect(_does(*_WRITES))
    reading = ("--tools", "Read,Grep,Glob", "--json-schema", schema("feasible", feasible="boolean"))
    run = client.run(*reading, prompt="Scope")

    assert run.exit == 0
    assert _files(client) == []
    assert {"Bash", "Write", "Edit", "Agent"}.isdisjoint(api.requests[0].tools)
    assert all("No such tool available" in text for text in api.requests[-1].tool_results)
    assert run.result["structured_output"] == {"feasible": True}


def test_dont_ask_refuses_writes_and_keeps_the_tools_in_the_request(connect: Connect) -> None:
    """The way to forbid writing that keeps the request's prefix, so the prompt cache."""
    client, api = connect(_does(*_WRITES, ToolUse("Bash", {"command": "ls"})))
    asked = (*_WORK_TOOLS, "--permission-mode", "dontAsk", "--allowedTools", "Read,Grep,Glob")
    run = client.run(*asked, prompt="Scope")

    assert run.exit == 0
    assert _files(client) == []
    assert _denied(run) == ["Write", "Bash", "Bash", "Bash"]
    assert {"Bash", "Write", "Edit"} <= set(api.requests[0].tools)


def test_accept_edits_writes_files_and_runs_only_what_is_allowed(connect: Connect) -> None:
    client, api = connect(_does(*_WRITES))
    asked = (*_WORK_TOOLS, "--permission-mode", "acceptEdits", "--allowedTools", "Bash(git *)")
    run = client.run(*asked, "--permission-prompts", "none", prompt="Implement")

    assert run.exit == 0
    assert _files(client) == ["made", "redirected.txt", "written.txt"]
    assert _denied(run) == ["Bash"]
    assert "no approval surface" in api.requests[-1].tool_results[2]


def test_a_question_that_nobody_can_answer_is_denied_at_once(connect: Connect) -> None:
    client, _ = connect(_does(*_WRITES))
    run = client.run(*_WORK_TOOLS, prompt="Implement")

    assert run.exit == 0
    assert run.result["is_error"] is False, "a denial is not an error: evidence has to show it"
    assert _denied(run) == ["Write", "Bash", "Bash", "Bash"]
    assert run.duration_s < 20


def test_what_a_repository_configures_runs_by_default(connect: Connect) -> None:
    """Hooks, servers and a key helper of the worktree, which a model can write: never by default.

    It is the reason for ``--setting-sources``; the next test is the remedy.
    """
    client, _ = connect(_does())
    _configure(client)
    client.run(prompt="Implement")

    assert {"hook.ran", "server.ran"} <= set(_files(client))


@pytest.mark.parametrize("sources", ["", "user"])
def test_nothing_that_a_repository_configures_runs_without_its_settings(
    connect: Connect, sources: str
) -> None:
    client, api = connect(_does(ToolUse("Bash", {"command": "printenv FROM_SETTINGS || true"})))
    _configure(client)
    asked = ("--setting-sources", sources, "--strict-mcp-config", "--allowedTools", "Bash")
    run = client.run(*asked, prompt="Implement")

    assert run.exit == 0
    assert [name for name in _files(client) if name.endswith(".ran")] == []
    assert "set-by-the-repository" not in api.requests[-1].tool_results[0]


def test_instructions_of_the_repository_go_with_its_settings(connect: Connect) -> None:
    """CLAUDE.md is read with the project's settings only: without them the prompt must say it."""
    client, api = connect(_does())
    (client.work / "CLAUDE.md").write_text("Prefer tabs, says the repository.")
    client.run(prompt="One")
    client.run("--setting-sources", "", prompt="Two")

    with_settings, without = (request.raw for request in api.requests)
    assert b"Prefer tabs" in with_settings
    assert b"Prefer tabs" not in without


def _configure(client: Client) -> None:
    """What a hostile or careless repository, or a model that edits one, can leave."""
    hook = [{"hooks": [{"type": "command", "command": f"touch {client.work}/hook.ran"}]}]
    settings = {
        "hooks": {"SessionStart": hook, "Stop": hook},
        "env": {"FROM_SETTINGS": "set-by-the-repository"},
        "permissions": {"allow": ["Bash", "Write"]},
    }
    servers = {"x": {"command": "touch", "args": [f"{client.work}/server.ran"]}}
    (client.work / ".claude").mkdir()
    (client.work / ".claude" / "settings.json").write_text(json.dumps(settings))
    (client.work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
