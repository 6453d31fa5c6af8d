"""A turn in the forms of the Messages API: server-sent events, or one message whole.

The client asks for the second when a stream broke off in the middle.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback_api.replies import Text, ToolUse, Turn, Usage


def whole(number: int, model: str, turn: Turn) -> dict[str, Any]:
    return {
        **_message(number, model),
        "content": [_content(number, index, block) for index, block in enumerate(turn.blocks)],
        "stop_reason": turn.stop_reason,
        "usage": _usage(turn.usage),
    }


def first_event(number: int, model: str, usage: Usage) -> bytes:
    begun = {**_message(number, model), "usage": {**_usage(usage), "output_tokens": 1}}
    return _event("message_start", message=begun)


def events(number: int, model: str, turn: Turn) -> Iterator[bytes]:
    yield first_event(number, model, turn.usage)
    for index, block in enumerate(turn.blocks):
        yield from _block(number, index, block)
    yield _event(
        "message_delta",
        delta={"stop_reason": turn.stop_reason, "stop_sequence": None},
        usage=_usage(turn.usage),
    )
    yield _event("message_stop")


def _block(number: int, index: int, block: Text | ToolUse) -> Iterator[bytes]:
    content = _content(number, index, block)
    match block:
        case Text(text=text):
            begun = {**content, "text": ""}
            delta = {"type": "text_delta", "text": text}
        case ToolUse(input=value):
            begun = {**content, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(value)}
    yield _event("content_block_start", index=index, content_block=begun)
    yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _content(number: int, index: int, block: Text | ToolUse) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case ToolUse(name=name, input=value):
            identity = f"toolu_{number:06d}_{index}"
            return {"type": "tool_use", "id": identity, "name": name, "input": dict(value)}


def _message(number: int, model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def _event(name: str, **fields: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()
