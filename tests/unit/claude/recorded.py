"""Recorded streams of the real client, and lines like them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from adapters.execution.claude.classify import Ended, Verdict, classify
from adapters.execution.claude.stream import ClaudeReader, Seen
from adapters.execution.lanes import StartAgain
from orchestrator.core.model import ChildExit

STREAMS = Path(__file__).parents[2] / "data" / "claude-streams"
NOW = 1_795_968_000.0
"""The day the streams were recorded."""

NAMES = sorted(path.stem for path in STREAMS.glob("*.jsonl"))


class Recording(NamedTuple):
    stdout: bytes
    code: int
    stderr: str

    @property
    def exit(self) -> ChildExit:
        """As a shim records it: what a shell shows as 128 + n is signal n, or a client that
        caught the signal and says so by its status."""
        if self.code == 137:
            return ChildExit(signal=9)
        return ChildExit(code=self.code)


def recording(name: str) -> Recording:
    stderr = STREAMS / f"{name}.stderr"
    return Recording(
        (STREAMS / f"{name}.jsonl").read_bytes(),
        int((STREAMS / f"{name}.exit").read_text()),
        stderr.read_text() if stderr.exists() else "",
    )


def seen_in(stdout: bytes, *, billing: str = "") -> Seen:
    reader = ClaudeReader(billing=billing)
    reader.feed(stdout)
    reader.close()
    return reader.seen


def line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


def init(**more: Any) -> bytes:
    event = {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-sonnet-4-6"}
    return line(**{**event, "apiKeySource": "none", "claude_code_version": "2.1.332", **more})


def reply(text: str = "Working.", *, message_id: str = "m1", **usage: int) -> bytes:
    message = {
        "id": message_id,
        "model": "claude-sonnet-4-6",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
    }
    return line(type="assistant", message=message)


def synthetic(text: str, error: str) -> bytes:
    message = {"id": "x", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return line(type="assistant", message=message, error=error)


def result(**more: Any) -> bytes:
    event = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    return line(**{**event, "result": "done", "total_cost_usd": 0.01, **more})


def failed(text: str, **more: Any) -> bytes:
    """A failure as the client words it: subtype success, and an error all the same."""
    return result(is_error=True, result=text, terminal_reason="api_error", **more)


def judged(
    stdout: bytes,
    exit_: ChildExit | None = None,
    *,
    stderr: str = "",
    schema: dict[str, Any] | None = None,
    billing: str = "",
    again: bool = False,
) -> Verdict | StartAgain:
    return classify(
        Ended(
            seen=seen_in(stdout, billing=billing),
            exit=exit_ or ChildExit(code=0),
            stderr_tail=stderr,
            schema=schema,
            again=again,
            now=NOW,
        )
    )


def verdict(stdout: bytes, exit_: ChildExit | None = None, **more: Any) -> Verdict:
    found = judged(stdout, exit_, **more)
    assert isinstance(found, Verdict)
    return found
