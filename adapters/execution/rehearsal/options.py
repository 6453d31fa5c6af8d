"""The client's command line: which options exist, what they take, and its exact refusals.

A driver that passes an option the client does not know must fail here as it fails there.
"""

import json
import os
from typing import Any, NamedTuple

PERMISSION_MODES = ("acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan")
EFFORTS = ("low", "medium", "high", "xhigh", "max")

_FLAGS = frozenset(
    {
        "--allow-dangerously-skip-permissions",
        "--bare",
        "--brief",
        "--continue",
        "--disable-slash-commands",
        "--dangerously-skip-permissions",
        "--exclude-dynamic-system-prompt-sections",
        "--fork-session",
        "--forward-subagent-text",
        "--include-hook-events",
        "--include-partial-messages",
        "--no-session-persistence",
        "--print",
        "--replay-user-messages",
        "--restricted",
        "--safe-mode",
        "--strict-mcp-config",
        "--verbose",
        "--version",
    }
)
_ONE = {
    "--agent": "<agent>",
    "--agents": "<json-or-file>",
    "--append-system-prompt": "<prompt>",
    "--append-system-prompt-file": "<file>",
    "--autocompact": "<auto|tokens>",
    "--debug-file": "<path>",
    "--effort": "<level>",
    "--fallback-model": "<model>",
    "--input-format": "<format>",
    "--json-schema": "<schema>",
    "--max-budget-usd": "<amount>",
    "--max-turns": "<turns>",
    "--model": "<model>",
    "--name": "<name>",
    "--output-format": "<format>",
    "--permission-mode": "<mode>",
    "--permission-prompt-tool": "<tool>",
    "--permission-prompts": "<target>",
    "--plugin-dir": "<path>",
    "--scenario": "<file>",
    "--session-id": "<uuid>",
    "--setting-sources": "<sources>",
    "--settings": "<file-or-json>",
    "--system-prompt": "<prompt>",
    "--system-prompt-file": "<file>",
    "--system-prompt-snapshot": "<on|off>",
}
_MANY = {
    "--add-dir": "<directories...>",
    "--allowedTools": "<tools...>",
    "--betas": "<betas...>",
    "--disallowedTools": "<tools...>",
    "--mcp-config": "<configs...>",
    "--tools": "<tools...>",
}
_OPTIONAL = frozenset({"--debug", "--resume"})
_ALIASES = {
    "-c": "--continue",
    "-d": "--debug",
    "-n": "--name",
    "-p": "--print",
    "-r": "--resume",
    "-v": "--version",
    "--allowed-tools": "--allowedTools",
    "--disallowed-tools": "--disallowedTools",
}
_CHOICES = {
    "--output-format": ("text", "json", "stream-json"),
    "--input-format": ("text", "stream-json"),
    "--permission-mode": PERMISSION_MODES,
    "--permission-prompts": ("host", "none"),
}


class Refusal(Exception):
    """The client says this on standard error and exits with status 1."""


class Options(NamedTuple):
    """What the rehearsal agent needs to know of its command line."""

    version: bool = False
    stream: bool = False
    output_format: str = "text"
    model: str = "sonnet"
    session_id: str | None = None
    resume: str | None = None
    json_schema: dict[str, Any] | None = None
    max_budget_usd: float | None = None
    max_turns: int | None = None
    tools: frozenset[str] | None = None
    """Of the built-in tools, those that exist; None: all."""
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    permission_mode: str = "default"
    persistent: bool = True
    scenario: str | None = None
    words: tuple[str, ...] = ()
    """Positional arguments: a prompt, or a command like ``auth status``."""


def parse(argv: list[str], *, as_root: bool, sandboxed: bool) -> Options:
    """Raises Refusal with the client's own words."""
    given, words = _scan(argv)
    for name, choices in _CHOICES.items():
        value = _last(given, name)
        if value is not None and value not in choices:
            raise Refusal(
                f"error: option '{name} {_ONE[name]}' argument '{value}' is invalid."
                f" Allowed choices are {', '.join(choices)}."
            )
    output_format = _last(given, "--output-format") or "text"
    if output_format == "stream-json" and "--print" in given and "--verbose" not in given:
        raise Refusal("Error: When using --print, --output-format=stream-json requires --verbose")
    bypass = (
        "--dangerously-skip-permissions" in given
        or _last(given, "--permission-mode") == "bypassPermissions"
    )
    if bypass and as_root and not sandboxed:
        raise Refusal(
            "--dangerously-skip-permissions cannot be used with root/sudo privileges"
            " for security reasons"
        )
    session_id = _last(given, "--session-id")
    if session_id is not None and not is_uuid(session_id):
        raise Refusal("Error: Invalid session ID. Must be a valid UUID.")
    resume = _last(given, "--resume")
    if session_id is not None and (resume is not None or "--continue" in given):
        raise Refusal("Error: --session-id with --continue or --resume also needs --fork-session.")
    tools = given.get("--tools")
    return Options(
        version="--version" in given,
        stream=output_format == "stream-json",
        output_format=output_format,
        model=_last(given, "--model") or "sonnet",
        session_id=session_id,
        resume=resume,
        json_schema=_schema(_last(given, "--json-schema")),
        max_budget_usd=_positive(given, "--max-budget-usd"),
        max_turns=_whole(given, "--max-turns"),
        tools=None if tools is None or tools == ["default"] else frozenset(_listed(tools)),
        allowed=_listed(given.get("--allowedTools", [])),
        disallowed=_listed(given.get("--disallowedTools", [])),
        permission_mode="bypassPermissions"
        if bypass
        else _last(given, "--permission-mode") or "default",
        persistent="--no-session-persistence" not in given,
        scenario=_last(given, "--scenario") or os.environ.get("ORCHESTRATOR_REHEARSAL"),
        words=tuple(words),
    )


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(p) for p in parts] == [8, 4, 4, 4, 12] and all(
        c in "0123456789abcdefABCDEF" for p in parts for c in p
    )


def _scan(argv: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    given: dict[str, list[str]] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, inline = word.partition("=")
        option = _ALIASES.get(name, name)
        values = given.setdefault(option, [])
        if option in _FLAGS:
            continue
        if option in _ONE or option in _MANY:
            if equals:
                values.append(inline)
            elif rest:
                values.append(rest.pop(0))
            else:
                takes = _ONE.get(option) or _MANY[option]
                raise Refusal(f"error: option '{option} {takes}' argument missing")
            while option in _MANY and not equals and rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
        elif option in _OPTIONAL:
            if equals:
                values.append(inline)
            elif rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
        else:
            raise Refusal(f"error: unknown option '{name}'")
    return given, words


def _last(given: dict[str, list[str]], option: str) -> str | None:
    values = given.get(option)
    return values[-1] if values else None


def _listed(values: list[str]) -> tuple[str, ...]:
    """Tool names are separated by commas or blanks, but not inside ``Bash(git commit *)``."""
    found: list[str] = []
    depth, word = 0, ""
    for char in ",".join(values) + ",":
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 and char in ", ":
            if word:
                found.append(word)
            word = ""
        else:
            word += char
    return tuple(found)


def _schema(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise Refusal(f"Error: --json-schema is not valid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise Refusal("Error: --json-schema is not a valid JSON Schema: data must be object")
    return schema


def _positive(given: dict[str, list[str]], option: str) -> float | None:
    text = _last(given, option)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise Refusal(
            f"error: option '{option} {_ONE[option]}' argument '{text}' is invalid."
            f" {option} must be a number greater than 0"
        )
    return value


def _whole(given: dict[str, list[str]], option: str) -> int | None:
    value = _positive(given, option)
    return None if value is None else int(value)
