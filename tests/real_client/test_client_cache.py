"""How much of a request stays the same from stage to stage: what the prompt cache can serve.

The provider's cache reads tools, then the system prompt, then the messages, and serves the
longest prefix that it has seen.  Measured here on what the client sends; the choice made from
it is in docs/decisions/.  ``pytest -s`` prints the figures.
"""

from pathlib import Path

import pytest

from tests.loopback_api import Request, ToolUse, Turn
from tests.loopback_api.requests import shared_prefix_bytes
from tests.real_client.client import Client, new_session, schema
from tests.real_client.conftest import Connect

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

_SCOPE = schema("feasible", feasible="boolean")
_IMPLEMENT = schema("summary", summary="string")
_EITHER = schema(feasible="boolean", summary="string")
_READS = ("--tools", "Read,Grep,Glob")
_WORKS = ("--tools", "Read,Grep,Glob,Bash,Edit,Write")
_ASKS_NEVER = ("--permission-mode", "dontAsk", "--allowedTools", "Read,Grep,Glob")
_NO_MEMORY = {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
_READ_BEFORE = "the files that scope has read\n" * 500


def _answers(request: Request) -> Turn:
    schema = request.output_schema or {}
    feasible = "feasible" in schema.get("properties", {})
    return Turn(
        (ToolUse("StructuredOutput", {"feasible": True} if feasible else {"summary": "x"}),)
    )


def _chain(client: Client, scope: tuple[str, ...], implement: tuple[str, ...]) -> None:
    session = new_session()
    first = client.run("--session-id", session, *scope, prompt=_READ_BEFORE, env=_NO_MEMORY)
    second = client.run("--resume", session, *implement, prompt="Implement", env=_NO_MEMORY)
    assert first.exit == second.exit == 0


def _shared(what: str, before: Request, after: Request) -> float:
    """The share of the earlier request that the later one repeats from its start."""
    shared, whole = shared_prefix_bytes(before, after), len(before.cache_prefix())
    print(f"\n{what}: {shared} of {whole} bytes shared")
    return shared / whole


def test_other_tools_share_nothing(connect: Connect) -> None:
    client, api = connect(_answers)
    _chain(
        client,
        (*_READS, "--json-schema", _SCOPE),
        (*_WORKS, "--json-schema", _IMPLEMENT),
    )
    assert _shared("other tools", *api.requests) < 0.01


def test_another_output_schema_shares_half_of_the_tools_only(connect: Connect) -> None:
    client, api = connect(_answers)
    _chain(
        client,
        (*_WORKS, *_ASKS_NEVER, "--json-schema", _SCOPE),
        (*_WORKS, "--json-schema", _IMPLEMENT),
    )
    before, after = api.requests
    tools_bytes = sum(len(str(tool)) for tool in before.body["tools"])
    shared = shared_prefix_bytes(before, after)
    _shared("another schema", before, after)
    assert 0 < shared < tools_bytes


def test_the_same_tools_and_schema_share_the_whole_conversation(connect: Connect) -> None:
    client, api = connect(_answers)
    _chain(
        client,
        (*_WORKS, *_ASKS_NEVER, "--json-schema", _EITHER),
        (*_WORKS, "--permission-mode", "acceptEdits", "--json-schema", _EITHER),
    )
    assert _shared("same tools and schema", *api.requests) > 0.99


@pytest.mark.parametrize("memory", [True, False])
def test_worktrees_share_tools_and_system_prompt_without_auto_memory(
    connect: Connect, tmp_path: Path, memory: bool
) -> None:
    """Auto-memory names a directory per worktree in the middle of the system prompt."""
    client, api = connect(_answers)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        client.run(
            *_WORKS,
            "--json-schema",
            _IMPLEMENT,
            prompt="Implement",
            cwd=tmp_path / name,
            env={} if memory else _NO_MEMORY,
        )
    one, two = api.requests
    until_prompt = len(one.cache_prefix().partition(b'"Implement"')[0])
    shared = shared_prefix_bytes(one, two)
    print(f"\nauto-memory {memory}: {shared} of {until_prompt} bytes before the prompt shared")
    assert (shared >= until_prompt) is not memory
