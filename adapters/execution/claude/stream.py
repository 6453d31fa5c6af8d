"""What a child's stream says, kept as a bounded summary.  Sans I/O.

Bytes go in as they come, in pieces of any size; however they are cut, the summary at the end
is the same.  Nothing that comes in raises, and memory stays under one line's limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.execution.claude import wire
from adapters.execution.claude.billing import another_source
from adapters.execution.claude.cost import Meter, Tokens, totals
from adapters.execution.claude.doing import Doing
from adapters.execution.claude.usage_windows import WINDOWS_MAX, is_paid_beyond, windows_in
from adapters.execution.lines import LineSplitter
from orchestrator.core.model import Window
from orchestrator.ports.execution import (
    Answered,
    Observation,
    ResultSeen,
    Unwanted,
    WindowsSeen,
)

SYNTHETIC = "<synthetic>"
"""The model of messages that the client wrote itself, to say what went wrong."""

TEXT_CHARS_MAX = 20_000
_OUTPUT_CHARS_MAX = 1_000_000
"""Of a result's text: it may have to be read as the structured output."""
NO_ENV: Mapping[str, str] = {}
_KEYS_MAX = 256
"""Of tool uses and background tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result line, as far as anything is judged by it."""

    subtype: str
    is_error: bool
    text: str
    errors: tuple[str, ...]
    structured_output: Any
    api_error_status: int
    api_error: str
    terminal_reason: str
    stop_reason: str
    startup_failure_reason: str
    turns: int
    queued_turns: int
    denied_tools: tuple[str, ...]

    @property
    def is_aborted(self) -> bool:
        """Said because of a signal: how it was cut off, not what came of the work."""
        return self.terminal_reason.startswith("aborted") or (
            self.subtype == "error_during_execution" and not self.terminal_reason and self.turns > 0
        )

    @property
    def said(self) -> str:
        """The client's own words about what went wrong, without those for its own makers."""
        return "; ".join(e for e in self.errors if not e.startswith(_FOR_MAKERS)) or self.text


_FOR_MAKERS = "[ede_diagnostic]"
"""Begins what the client adds to an ending in the middle of its work."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """The summary."""

    session_id: str = ""
    model: str = ""
    answered_by: str = ""
    """The model of the last message: not ``model`` where the client fell back to another."""
    version: str = ""
    api_key_source: str = ""
    billing: str = ""
    """What is to pay: see billing.py."""
    started: bool = False
    """There was an ``init`` line."""
    replies: int = 0
    """Lines with a real model's words, in this process: the proof of work."""
    last_text: str = ""
    error: str = ""
    """Of the last message, where the client wrote it to report an error: its kind."""
    timestamp: str = ""
    """Of the last dated line."""
    result: Result | None = None
    """The last one."""
    is_final: bool = False
    """No further turn began after the last result, or was queued behind it."""
    windows: dict[str, Window] = field(default_factory=dict)
    using_overage: bool = False
    api_retries: int = 0
    tools: dict[str, str] = field(default_factory=dict)
    """Tool uses without a result yet: id to name."""
    tasks: dict[str, str] = field(default_factory=dict)
    """Background tasks that live: id to kind."""
    subagents_lost: int = 0
    """Subagents that were stopped in the middle."""
    login_ends_at: str = ""
    """ISO, where the client says so."""
    writes_lost: bool = False
    """The client could not write its transcript."""
    unreadable_lines: int = 0
    oversize_lines: int = 0
    is_torn: bool = False
    meter: Meter = field(default_factory=Meter)

    @property
    def bills_wrongly(self) -> str:
        """What pays and should not, in words; "" where all is well."""
        return another_source(self.api_key_source, self.billing) if self.started else ""

    @property
    def final_result(self) -> Result | None:
        return self.result if self.is_final else None


class ClaudeReader:
    def __init__(self, *, billing: str = "", env: Mapping[str, str] = NO_ENV) -> None:
        """``billing``: ``subscription`` or ``api_key``; empty: either.  ``env`` is the client's."""
        self.seen = Seen(billing=billing)
        self.doing = Doing(env)
        self._lines = LineSplitter()

    def feed(self, data: bytes) -> tuple[Observation, ...]:
        found: list[Observation] = []
        for line in self._lines.feed(data):
            self._line(line, found)
        self.seen.oversize_lines = self._lines.oversize_count
        return tuple(found)

    def close(self) -> None:
        """A last line without its newline counts if it is whole."""
        tail = self._lines.close()
        if wire.objects(tail):
            self._line(tail, [])
        else:
            self.seen.is_torn = self._lines.torn_count > 0

    def _line(self, line: bytes, found: list[Observation]) -> None:
        events = wire.objects(line)
        if not events and line.strip():
            self.seen.unreadable_lines += 1
        for event in events:
            self.doing.hear(event)
            kind = wire.text(event.get("type"))
            handle = _HANDLERS.get(kind) or _HANDLERS.get(
                f"{kind}/{wire.text(event.get('subtype'))}"
            )
            if handle is not None:
                observation = handle(self.seen, event)
                if observation is not None:
                    found.append(observation)


def _init(seen: Seen, event: Mapping[str, Any]) -> Unwanted | None:
    seen.started = True
    seen.is_final = False
    seen.session_id = wire.text(event.get("session_id"), 100)
    seen.model = wire.name(event.get("model"))
    seen.version = wire.text(event.get("claude_code_version"), 50)
    seen.api_key_source = wire.text(event.get("apiKeySource"), 50)
    return Unwanted(seen.bills_wrongly) if seen.bills_wrongly else None


def _assistant(seen: Seen, event: Mapping[str, Any]) -> Answered | None:
    message = wire.mapping(event.get("message"))
    model = wire.name(message.get("model"))
    seen.timestamp = wire.text(event.get("timestamp"), 50) or seen.timestamp
    seen.error = wire.text(event.get("error"), 100)
    blocks = message.get("content")
    blocks = [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
    spoken = [wire.text(b.get("text"), TEXT_CHARS_MAX) for b in blocks if b.get("type") == "text"]
    if model == SYNTHETIC:
        return None
    if not event.get("parent_tool_use_id"):
        seen.answered_by = model or seen.answered_by
        if any(spoken):
            seen.last_text = "\n".join(filter(None, spoken))[:TEXT_CHARS_MAX]
    is_first = bool(model) and not seen.replies
    seen.replies += bool(model)
    for block in blocks:
        if block.get("type") == "tool_use":
            _keep(seen.tools, wire.text(block.get("id"), 200), wire.text(block.get("name"), 100))
    usage = wire.mapping(message.get("usage"))
    seen.meter.message(
        wire.text(message.get("id"), 200),
        Tokens(
            model=model,
            input=_tokens(usage, "input_tokens"),
            output=_tokens(usage, "output_tokens"),
            cache_read=_tokens(usage, "cache_read_input_tokens"),
            cache_write=_tokens(usage, "cache_creation_input_tokens"),
        ),
        chars=sum(map(_chars, blocks)),
    )
    return Answered() if is_first else None


def _tokens(usage: Mapping[str, Any], kind: str) -> int:
    return wire.count(usage.get(kind), wire.MESSAGE_TOKENS_MAX)


def _chars(block: Mapping[str, Any]) -> int:
    said = block.get("text") or block.get("thinking") or block.get("input") or ""
    if isinstance(said, str):
        return len(said)
    try:
        return len(msgspec.json.encode(said))
    except (ValueError, OverflowError, RecursionError):
        return 0


def _user(seen: Seen, event: Mapping[str, Any]) -> None:
    seen.timestamp = wire.text(event.get("timestamp"), 50) or seen.timestamp
    blocks = wire.mapping(event.get("message")).get("content")
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            seen.tools.pop(wire.text(block.get("tool_use_id"), 200), None)


def _rate_limit(seen: Seen, event: Mapping[str, Any]) -> WindowsSeen | None:
    info = wire.mapping(event.get("rate_limit_info"))
    seen.using_overage = is_paid_beyond(info)
    windows = windows_in(info)
    for window in windows.values():
        _keep(seen.windows, window.name, window, WINDOWS_MAX)
    return WindowsSeen(tuple(windows.values())) if windows else None


def _result(seen: Seen, event: Mapping[str, Any]) -> ResultSeen | None:
    denials = event.get("permission_denials")
    names = (
        wire.text(wire.mapping(denial).get("tool_name"), 100)
        for denial in (denials if isinstance(denials, list) else ())
    )
    result = Result(
        subtype=wire.text(event.get("subtype"), 100),
        is_error=bool(event.get("is_error")),
        text=wire.text(event.get("result"), _OUTPUT_CHARS_MAX),
        errors=wire.texts(event.get("errors")),
        structured_output=event.get("structured_output"),
        api_error_status=wire.count(event.get("api_error_status")),
        api_error=wire.text(event.get("api_error"), 100),
        terminal_reason=wire.text(event.get("terminal_reason"), 100),
        stop_reason=wire.text(event.get("stop_reason"), 100),
        startup_failure_reason=wire.text(event.get("startup_failure_reason"), 100),
        turns=wire.count(event.get("num_turns")),
        queued_turns=wire.count(event.get("queued_turn_count")),
        denied_tools=tuple(sorted(set(filter(None, names))))[:20],
    )
    seen.meter.result(totals(event))
    if result.terminal_reason.startswith("aborted") and seen.final_result is not None:
        return None  # told to stop after its end: nothing of the work was cut off
    seen.result = result
    seen.login_ends_at = wire.text(event.get("credential_expires_at"), 50)
    seen.is_final = result.queued_turns == 0
    # A shell that lives on is a server; a subagent may have the last word yet.
    is_waited_for = any(not kind.endswith("bash") for kind in seen.tasks.values())
    is_end = seen.is_final and not is_waited_for and not result.is_aborted
    return ResultSeen() if is_end else None


def _api_retry(seen: Seen, event: Mapping[str, Any]) -> None:
    seen.api_retries += 1


def _tasks_changed(seen: Seen, event: Mapping[str, Any]) -> None:
    """The whole list: what is not in it has ended."""
    tasks = event.get("tasks")
    seen.tasks.clear()
    for task in tasks if isinstance(tasks, list) else ():
        _task_lives(seen, wire.mapping(task))


def _task_started(seen: Seen, event: Mapping[str, Any]) -> None:
    if event.get("is_backgrounded") is True:
        _task_lives(seen, event)


def _task_lives(seen: Seen, task: Mapping[str, Any]) -> None:
    kind = "agent" if task.get("subagent_type") else wire.text(task.get("task_type"), 50)
    _keep(seen.tasks, wire.text(task.get("task_id"), 200), kind)


def _task_ended(seen: Seen, event: Mapping[str, Any]) -> None:
    _task_gone(seen, event, event.get("status"))


def _task_updated(seen: Seen, event: Mapping[str, Any]) -> None:
    status = wire.mapping(event.get("patch")).get("status")
    if status in ("completed", "failed", "killed"):
        _task_gone(seen, event, status)


def _task_gone(seen: Seen, event: Mapping[str, Any], status: Any) -> None:
    kind = seen.tasks.pop(wire.text(event.get("task_id"), 200), "")
    # A shell that is stopped at the end is a server that was needed no longer.
    seen.subagents_lost += status in ("stopped", "killed") and kind.endswith("agent")


def _writes_lost(seen: Seen, event: Mapping[str, Any]) -> None:
    lost = event.get("lost")
    seen.writes_lost |= isinstance(lost, list) and "transcript" in lost


def _keep(kept: dict[str, Any], key: str, value: Any, keys_max: int = _KEYS_MAX) -> None:
    """Add or replace; past the limit the oldest goes."""
    if not key:
        return
    kept[key] = value
    if len(kept) > keys_max:
        del kept[next(iter(kept))]


_HANDLERS: Mapping[str, Any] = {
    "assistant": _assistant,
    "user": _user,
    "result": _result,
    "rate_limit_event": _rate_limit,
    "system/init": _init,
    "system/api_retry": _api_retry,
    "system/background_tasks_changed": _tasks_changed,
    "system/task_started": _task_started,
    "system/task_notification": _task_ended,
    "system/task_updated": _task_updated,
    "system/session_writes_lost": _writes_lost,
}
"""By ``type``, or ``type/subtype``.  Everything else is on the stream for people to read."""
