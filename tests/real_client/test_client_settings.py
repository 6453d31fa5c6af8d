"""What of a repository's own configuration the real client obeys: files that a model can write."""

import json

import pytest

from tests.loopback_api import Request, Text, ToolUse, Turn
from tests.loopback_api.server import Script
from tests.real_client.client import Client
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]


def _does(*uses: ToolUse) -> Script:
    """One tool after the other, then the end."""

    def script(request: Request) -> Turn:
        if request.turn < len(uses):
            return Turn((uses[request.turn],))
        return Turn((Text("Done."),))

    return script


def _files(client: Client) -> list[str]:
    return sorted(path.name for path in client.work.iterdir())


def test_what_a_repository_configures_runs_by_default(connect: Connect) -> None:
    """Hooks, servers and a key helper of the worktree, which a model can write: never by default.

    It is the reason for ``--setting-sources``; the next test is the remedy.
    """
    client, _ = connect(_does())
    _configure(client)
    client.run(prompt="Implement")

    assert {"hook.ran", "server.ran"} <= set(_files(client))


def test_nothing_that_a_repository_configures_runs_without_its_settings(connect: Connect) -> None:
    client, api = connect(_does(ToolUse("Bash", {"command": "printenv FROM_SETTINGS || true"})))
    _configure(client)
    asked = ("--setting-sources", "user", "--strict-mcp-config", "--allowedTools", "Bash")
    run = client.run(*asked, prompt="Implement")

    assert run.exit == 0
    assert [name for name in _files(client) if name.endswith(".ran")] == []
    assert "set-by-the-repository" not in api.requests[-1].tool_results[0]


def test_instructions_of_the_repository_go_with_its_settings(connect: Connect) -> None:
    """CLAUDE.md is read with the project's settings only: without them the prompt must say it."""
    client, api = connect(_does())
    (client.work / "CLAUDE.md").write_text("Prefer tabs, says the repository.")
    client.run(prompt="One")
    client.run("--setting-sources", "user", prompt="Two")

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


def test_dont_ask_still_runs_commands_that_only_read(connect: Connect) -> None:
    client, api = connect(
        _does(
            ToolUse("Bash", {"command": "ls"}),
            ToolUse("Bash", {"command": "echo x > made.txt"}),
            ToolUse("Bash", {"command": "ls | tee made.txt"}),
        )
    )
    client.run("--permission-mode", "dontAsk", "--allowedTools", "Read", prompt="Scope")

    assert _files(client) == []
    ran, *refused = api.requests[-1].tool_results
    assert "has been denied" not in ran
    assert ["has been denied" in text for text in refused] == [True, True]


def test_accept_edits_also_lets_the_shell_write_in_the_worktree(connect: Connect) -> None:
    client, _ = connect(_does(ToolUse("Bash", {"command": "echo x > made.txt"})))
    client.run("--permission-mode", "acceptEdits", prompt="Implement")

    assert _files(client) == ["made.txt"]
