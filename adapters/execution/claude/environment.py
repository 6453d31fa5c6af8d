"""The child's environment, by allowlist.

Nothing of the driver's environment reaches a child unless it is named here or in the
project file: an inherited ``ANTHROPIC_API_KEY`` would silently bill the key instead of the
subscription, and the marks of a surrounding client session would make it a nested one.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from adapters.execution.utf8 import in_utf8
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.settings import AgentSettings, Project
from orchestrator.given_file import read_given

PASSED = frozenset(
    {
        "HOME",
        "PATH",
        "LANG",
        "TERM",
        "TMPDIR",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_OAUTH_TOKEN",
    }
)
"""Taken from the driver's environment, with every ``LC_*``."""

NEVER = frozenset(
    {
        # Marks of a client session around the driver: the child would take itself for its part.
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        # No transcript would be kept, and no session could be resumed.
        "CLAUDE_CODE_SKIP_PROMPT_HISTORY",
        # They print logs on standard output, between the lines of the stream.
        "ANTHROPIC_LOG",
        "DEBUG",
    }
)
"""Not even where the project file names them."""

HEADLESS: Mapping[str, str] = {
    # An update in the middle of a run takes away the binary that runs, or changes how it behaves.
    "DISABLE_AUTOUPDATER": "1",
    # No telemetry, and no title requests that would show up as another model's cost.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    # A background shell or subagent keeps the child alive after its result, or dies unfinished.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # Should one live on all the same: one minute instead of ten.
    "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "60000",
    # No turns that nobody asked for, and no memories of other tasks.
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # "@path" in an issue's text must not pull that file into the prompt.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # The repository's CLAUDE.md is read although its settings are not (see command.py).
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
    # The connectors of the person's account are no part of a batch.
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    # Without a transcript the next stage cannot resume.
    "CLAUDE_CODE_FORCE_SESSION_PERSISTENCE": "1",
    # A start that fails says so as a result line, with a reason that can be told apart.
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    # The client's own retries ride out about half a minute; longer outages are the driver's.
    "CLAUDE_CODE_MAX_RETRIES": "6",
    # With background tasks off, a test run of more than two minutes would be cut off.
    "BASH_DEFAULT_TIMEOUT_MS": "600000",
    "BASH_MAX_TIMEOUT_MS": "1800000",
}

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET_CHARS_MIN = 8


def child_environment(
    agent: AgentSettings,
    inherited: Mapping[str, str],
    *,
    values: Mapping[str, str],
    oauth_token: str = "",
) -> dict[str, str]:
    """The complete environment.  ``values`` are those of the project file; they win."""
    env = {**HEADLESS, **in_utf8(dict(_passed(agent, inherited)))}
    if oauth_token:
        env["CLAUDE_CODE_OAUTH_TOKEN"] = oauth_token
    env.update(values)
    return {name: value for name, value in env.items() if name not in NEVER}


def _passed(agent: AgentSettings, inherited: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in inherited.items():
        if name in PASSED or name.startswith("LC_") or name in agent.pass_env:
            yield name, value


def read_oauth_token(project: Project) -> str:
    """The token of ``agent.oauth_token_file``, "" where none is set.  Raises EnvironmentFault."""
    name = project.agent.oauth_token_file
    if not name:
        return ""
    path = Path(project.root, os.path.expanduser(name))
    remedy = "write the output of `claude setup-token` into it, or correct agent.oauth_token_file"
    try:
        token = read_given(path).decode().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise EnvironmentFault(f"cannot read the token file {path}: {why}; {remedy}") from error
    if not token or any(char.isspace() for char in token):
        raise EnvironmentFault(f"the token file {path} does not hold one token; {remedy}")
    return token


def secret_values(env: Mapping[str, str]) -> frozenset[str]:
    """What must not appear in any log: values of variables whose names say that they are secret."""
    return frozenset(
        value
        for name, value in env.items()
        if len(value) >= _SECRET_CHARS_MIN and _SECRET_NAME.search(name)
    )
