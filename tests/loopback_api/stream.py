"""A turn as the server-sent events of the Messages API."""

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback_api.replies import Text, ToolUse, Turn, Usage


def first_event(number: int, model: str, usage: Usage) -> bytes:
    return _event(
        "message_start",
        message={
            "id": f"msg_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_usage(usage), "output_tokens": 1},
        },
    )


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
    start: dict[str, Any]
    delta: dict[str, Any]
    match block:
        case Text(text=text):
            start = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": text}
        case ToolUse(name=name, input=value):
            identity = f"toolu_{number:06d}_{index}"
            start = {"type": "tool_use", "id": identity, "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(value)}
    yield _event("content_block_start", index=index, content_block=start)
    yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def _event(name: str, **fields: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()
