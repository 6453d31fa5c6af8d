"""A child's raw output as a person reads it: one short line per thing it did.

Pure, and tolerant of everything: a line that is not understood gives nothing.  What an agent
wrote is shown without control characters, so that it cannot drive the terminal.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

WIDTH = 160
TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
"""Of a tool's input, the first of these says most."""


def readable(line: bytes) -> Iterator[str]:
    """What one line of a ``.stream.jsonl`` tells: of claude, or of a deterministic stage."""
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if not isinstance(message, dict):
        return
    match message.get("type"):
        case "system" if message.get("subtype") == "init":
            yield f"· session {message.get('session_id', '?')}, {message.get('model', '?')}"
        case "system" if message.get("subtype") == "api_retry":
            yield f"· the API fails ({message.get('error_status')}), try {message.get('attempt')}"
        case "assistant" | "user" as who:
            yield from _conversation(who, message.get("message"))
        case "result":
            yield _result(message)
        case "step":
            yield f"· {short(message.get('name'))}"
        case "output":
            yield from (f"  {short(each)}" for each in str(message.get("text", "")).splitlines())
        case "stage_result":
            yield short(f"= {message.get('status')} {message.get('error') or ''}")
        case _:
            return


def short(text: object, width: int = WIDTH) -> str:
    one_line = " ".join(str(text).split())
    if len(one_line) > width:
        one_line = one_line[: width - 1] + "…"
    return "".join(c if c.isprintable() else "?" for c in one_line)


def _conversation(who: str, message: Any) -> Iterator[str]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, Mapping):
            continue
        match block.get("type"):
            case "text" if who == "assistant" and block.get("text"):
                yield short(block["text"])
            case "tool_use":
                yield short(f"> {block.get('name')} {_input(block.get('input'))}")
            case "tool_result":
                mark = "!" if block.get("is_error") else "<"
                yield short(f"{mark} {_result_text(block.get('content'))}", width=100)
            case _:
                continue


def _input(given: Any) -> str:
    if not isinstance(given, Mapping):
        return ""
    for name in TELLING:
        if given.get(name):
            return str(given[name])
    return ", ".join(str(name) for name in given)


def _result_text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(b.get("text", "")) for b in content if isinstance(b, Mapping))
    return str(content or "")


def _result(message: Mapping[str, Any]) -> str:
    is_good = message.get("subtype") == "success" and not message.get("is_error")
    how = "success" if is_good else message.get("terminal_reason") or message.get("subtype")
    cost = message.get("total_cost_usd")
    money = f", session total {cost:.4f} USD" if isinstance(cost, int | float) else ""
    return short(f"= {how}, {message.get('num_turns', '?')} turns{money}")
