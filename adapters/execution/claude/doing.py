"""What the client is about at the moment, by its stream.  Sans I/O, bounded, never raises.

It answers one question: may this silence be an honest one?
"""

from collections.abc import Mapping
from typing import Any

from adapters.execution.claude import wire
from adapters.execution.stall import Told, Tool

_TOOLS_MAX = 256
_BASH_DEFAULT_S = 120.0
_BASH_MAX_S = 600.0


class Doing:
    def __init__(self, env: Mapping[str, str]) -> None:
        """``env`` is the client's: it sets how long tools may take."""
        self._bash_s = _milliseconds(env, "BASH_DEFAULT_TIMEOUT_MS") or _BASH_DEFAULT_S
        longest_s = _milliseconds(env, "BASH_MAX_TIMEOUT_MS") or _BASH_MAX_S
        self._bash_max_s = max(longest_s, self._bash_s)
        self._mcp_s = _milliseconds(env, "MCP_TOOL_TIMEOUT")
        self._tools: dict[str, Tool] = {}
        self._is_compacting = False
        self._retry_delay_s = 0.0

    def told(self) -> Told:
        return Told(
            tools=dict(self._tools),
            is_compacting=self._is_compacting,
            retry_delay_s=self._retry_delay_s,
        )

    def hear(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "system":
                self._system(event)
            case "assistant" | "user":
                self._is_compacting, self._retry_delay_s = False, 0.0
                self._message(wire.mapping(event.get("message")).get("content"))
            case "result":
                self._begin()
            case _:
                pass

    def _system(self, event: Mapping[str, Any]) -> None:
        match event.get("subtype"):
            case "init":
                self._begin()
            case "api_retry":
                self._retry_delay_s = wire.count(event.get("retry_delay_ms")) / 1000
            case "status":
                self._is_compacting = event.get("status") == "compacting"
            case "compact_boundary":
                self._is_compacting = False
            case _:
                pass

    def _begin(self) -> None:
        """No turn is under way, or a new one is: nothing of an earlier one holds."""
        self._tools.clear()
        self._is_compacting, self._retry_delay_s = False, 0.0

    def _message(self, content: Any) -> None:
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_result":
                self._tools.pop(wire.text(block.get("tool_use_id"), 200), None)
            elif block.get("type") == "tool_use" and len(self._tools) < _TOOLS_MAX:
                name = wire.text(block.get("name"), 100)
                timeout_s = self._timeout_s(name, wire.mapping(block.get("input")))
                self._tools[wire.text(block.get("id"), 200)] = Tool(name=name, timeout_s=timeout_s)

    def _timeout_s(self, name: str, arguments: Mapping[str, Any]) -> float | None:
        asked_s = wire.count(arguments.get("timeout")) / 1000
        if name == "Bash":
            return min(asked_s, self._bash_max_s) if asked_s else self._bash_s
        if name.startswith("mcp__"):
            return self._mcp_s
        return asked_s or None


def _milliseconds(env: Mapping[str, str], name: str) -> float | None:
    """In seconds; None where it is not set, or is no number that the client would take."""
    text = env.get(name, "")
    return int(text) / 1000 if text.isascii() and text.isdigit() and len(text) < 13 else None
