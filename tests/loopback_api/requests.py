"""A request to the Messages API, as a script and an assertion want to see it.

"The prompt" is what the driver wrote: not a tool's result, and not what the client adds by
itself (reminders, its demand for a structured output).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

STRUCTURED_OUTPUT = "StructuredOutput"

_ADDED_BY_CLIENT = ("<system-reminder>", "[structured-output-enforce]")


@dataclass(frozen=True)
class Request:
    number: int
    """1, 2, 3 … in order of arrival."""
    path: str
    headers: Mapping[str, str]
    """Names in lower case.  The credential is not kept."""
    raw: bytes
    arrived_at: float = 0.0
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def session_id(self) -> str:
        """The client's session, from the header it sends, otherwise from its metadata."""
        named = self.headers.get("x-claude-code-session-id", "")
        if named:
            return named
        user = str(self.body.get("metadata", {}).get("user_id", ""))
        try:
            said = json.loads(user)
        except ValueError:
            return user.rpartition("_session_")[2]
        return str(said.get("session_id", "")) if isinstance(said, dict) else ""

    @cached_property
    def tools(self) -> tuple[str, ...]:
        return tuple(str(tool.get("name", "")) for tool in self.body.get("tools", ()))

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        """The schema of the structured output that is asked for."""
        for tool in self.body.get("tools", ()):
            if tool.get("name") == STRUCTURED_OUTPUT:
                schema = tool.get("input_schema", {})
                return schema if isinstance(schema, dict) else None
        return None

    @property
    def wants_stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return list(self.body.get("messages", ()))

    @cached_property
    def prompt(self) -> str:
        """What the model was told last."""
        index = self._prompt_index
        return _text_of(self.messages[index]) if index is not None else ""

    @property
    def task(self) -> str:
        """The task that the prompt's header names; "" where it has none."""
        return self._header("Task")

    @property
    def stage(self) -> str:
        return self._header("Stage")

    def _header(self, name: str) -> str:
        for line in self.prompt.splitlines():
            key, colon, value = line.partition(": ")
            if colon and key == name:
                return value.strip()
        return ""

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """All that the model was told in this session, oldest first."""
        return tuple(_text_of(message) for message in self.messages if _is_prompt(message))

    @cached_property
    def tool_results(self) -> tuple[str, ...]:
        """What the tools answered in this turn, oldest first."""
        index = self._prompt_index
        later = self.messages[index + 1 :] if index is not None else []
        return tuple(text for message in later for text in _tool_results(message))

    @property
    def turn(self) -> int:
        """How often the model has spoken since the last prompt: 0 at the first request."""
        index = self._prompt_index
        later = self.messages[index + 1 :] if index is not None else []
        return sum(message.get("role") == "assistant" for message in later)

    @property
    def system_text(self) -> str:
        system = self.body.get("system", "")
        if isinstance(system, str):
            return system
        return "\n".join(str(block.get("text", "")) for block in system)

    @cached_property
    def _prompt_index(self) -> int | None:
        for index in range(len(self.messages) - 1, -1, -1):
            if _is_prompt(self.messages[index]):
                return index
        return None

    def cache_prefix(self) -> bytes:
        """The request in the order in which the provider's prompt cache reads it.

        Tools come first, then the system prompt, then the messages: two requests share as
        much of the cache as they share of this.  ``cache_control`` marks are left out.
        """
        parts = [
            *self.body.get("tools", ()),
            *_as_blocks(self.body.get("system", ())),
            *(
                {"role": message.get("role"), "block": block}
                for message in self.messages
                for block in _as_blocks(message.get("content", ()))
            ),
        ]
        return b"\n".join(
            json.dumps(_without_cache_control(part), sort_keys=True).encode() for part in parts
        )


def parse(*, number: int, path: str, headers: Mapping[str, str], raw: bytes, at: float) -> Request:
    """A request from its bytes.  Raises ValueError for a body that is not a JSON object."""
    body = json.loads(raw) if raw else {}
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    kept = {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() not in {"x-api-key", "authorization"}
    }
    return Request(number=number, path=path, headers=kept, raw=raw, arrived_at=at, body=body)


def shared_prefix_bytes(one: Request, other: Request) -> int:
    """How many bytes the two requests' cache prefixes have in common."""
    left, right = one.cache_prefix(), other.cache_prefix()
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))


def _as_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _without_cache_control(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_cache_control(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_cache_control(v) for k, v in value.items() if k != "cache_control"}
    return value


def _is_prompt(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and bool(_text_of(message))


def _text_of(message: Mapping[str, Any]) -> str:
    """The text in a message, but for what the client added."""
    texts = (
        str(block["text"])
        for block in _as_blocks(message.get("content", ()))
        if block.get("type") == "text"
    )
    return "\n".join(text for text in texts if not text.startswith(_ADDED_BY_CLIENT))


def _tool_results(message: Mapping[str, Any]) -> list[str]:
    results = []
    for block in _as_blocks(message.get("content", ())):
        if block.get("type") == "tool_result":
            content = _as_blocks(block.get("content", ""))
            results.append("\n".join(str(part.get("text", "")) for part in content))
    return results
