"""The lines of the stream, as the client writes them.

One method per line type; shapes and key order are those of recorded streams (a result's
``type`` stands late in its line).  A line is written whole, at once, or not at all.
"""

import json
import os
import time
from typing import Any

from adapters.execution.rehearsal.sessions import Spent, Usage

VERSION = "2.1.332"
SYNTHETIC = "<synthetic>"
TOOLS = (
    *("Task", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Skill"),
    *("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "WebFetch", "WebSearch", "Write"),
)


def uuid() -> str:
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


class Stream:
    """Standard output, of one call in one session."""

    def __init__(self, session_id: str, model: str, *, quiet: bool = False) -> None:
        self.session_id = session_id
        self.model = model
        self.quiet = quiet
        """Not stream-json: nothing but the result is printed, by whoever asked for it."""
        self._message = 0

    def line(self, record: dict[str, Any]) -> None:
        self.line_of(record)

    def line_of(self, value: Any) -> None:
        self.raw(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        if self.quiet:
            return
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def init(self, cwd: str, tools: list[str], permission_mode: str, key_source: str) -> None:
        self.line(
            {
                "type": "system",
                "subtype": "init",
                "cwd": cwd,
                "session_id": self.session_id,
                "tools": tools,
                "mcp_servers": [],
                "model": self.model,
                "permissionMode": permission_mode,
                "slash_commands": [],
                "apiKeySource": key_source,
                "claude_code_version": VERSION,
                "output_style": "default",
                "agents": [],
                "skills": [],
                "plugins": [],
                "uuid": uuid(),
                "rehearsal": True,
            }
        )

    def next_message(self) -> str:
        """Several lines may belong to one message; this begins another."""
        self._message += 1
        return f"msg_{self._message:05}"

    def assistant(self, message_id: str, block: dict[str, Any], usage: Usage) -> None:
        self.line(
            {
                "type": "assistant",
                "message": {
                    "id": message_id,
                    "type": "message",
                    "role": "assistant",
                    "model": self.model,
                    "content": [block],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": _message_usage(usage),
                    "context_management": None,
                },
                "parent_tool_use_id": None,
                **self._envelope(),
            }
        )

    def tool_result(self, tool_use_id: str, content: str, *, error: bool, raw: Any) -> None:
        block = {"tool_use_id": tool_use_id, "type": "tool_result", "content": content}
        self.user([{**block, "is_error": error}], tool_use_result=raw)

    def user(self, content: list[dict[str, Any]], **more: Any) -> None:
        self.line(
            {
                "type": "user",
                "message": {"role": "user", "content": content},
                "parent_tool_use_id": None,
                **self._envelope(),
                **more,
            }
        )

    def api_error(self, text: str, error: str, **more: Any) -> None:
        """The synthetic message that stands for a failed request."""
        self.line(
            {
                "type": "assistant",
                "message": {
                    "id": uuid(),
                    "model": SYNTHETIC,
                    "role": "assistant",
                    "stop_reason": "stop_sequence",
                    "stop_sequence": "",
                    "type": "message",
                    "usage": _message_usage(Usage()),
                    "content": [{"type": "text", "text": text}],
                    "context_management": None,
                },
                "parent_tool_use_id": None,
                **self._envelope(),
                "error": error,
                "is_api_error_message": True,
                **more,
            }
        )

    def api_retry(self, attempt: int, retries: int, delay_s: float, status: int | None) -> None:
        self.line(
            {
                "type": "system",
                "subtype": "api_retry",
                "attempt": attempt,
                "max_retries": retries,
                "retry_delay_ms": int(delay_s * 1000),
                "error_status": status,
                "error": "overloaded" if status == 529 else "unknown",
                "session_id": self.session_id,
                "uuid": uuid(),
            }
        )

    def system(self, subtype: str, **more: Any) -> None:
        ids = {"session_id": self.session_id, "uuid": uuid()}
        self.line({"type": "system", "subtype": subtype, **more, **ids})

    def rate_limit_event(self, info: dict[str, Any]) -> None:
        self.line(
            {
                "type": "rate_limit_event",
                "rate_limit_info": info,
                "uuid": uuid(),
                "session_id": self.session_id,
            }
        )

    def _envelope(self) -> dict[str, Any]:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        millis = int(now * 1000) % 1000
        return {
            "session_id": self.session_id,
            "uuid": uuid(),
            "timestamp": f"{stamp}.{millis:03}Z",
        }


def result(
    session_id: str,
    *,
    own: Usage,
    total: Spent,
    since_result: Spent,
    turns: int,
    duration_s: float,
    denials: list[dict[str, Any]],
    verdict: dict[str, Any],
) -> dict[str, Any]:
    """``total`` is the session's, over every ``--resume``; ``own`` is this invocation's.

    ``verdict``: is_error, subtype, stop_reason, terminal_reason, result or errors, ….
    """
    record: dict[str, Any] = {
        "duration_api_ms": int(duration_s * 1000),
        "session_id": session_id,
        "total_cost_usd": sum(usage.cost_usd for usage in total.values()),
        "usage": {**_message_usage(own), "service_tier": "standard", "iterations": []},
        "modelUsage": _model_usage(total),
        "permission_denials": denials,
        "num_turns": turns,
        **verdict,
        "type": "result",
        "duration_ms": int(duration_s * 1000),
        "uuid": uuid(),
        "queued_turn_count": 0,
        "result_index": 0,
        "model_usage_since_last_result": _model_usage(since_result),
    }
    return record


def _message_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _model_usage(spent: Spent) -> dict[str, Any]:
    return {
        model: {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadInputTokens": usage.cache_read_tokens,
            "cacheCreationInputTokens": usage.cache_write_tokens,
            "webSearchRequests": 0,
            "costUSD": usage.cost_usd,
            "contextWindow": 200000,
            "maxOutputTokens": 32000,
            "canonicalModel": model,
            "provider": "firstParty",
            "costBasis": "list",
        }
        for model, usage in spent.items()
    }
