"""Lines that a careless reader chokes on, or takes for something that they are not."""

import os

from adapters.execution.rehearsal.conversation import Conversation, Moment, Params
from adapters.execution.rehearsal.faults.kind import registry

KINDS, _at = registry()


@_at(Moment.WORK)
def truncated_tail(play: Conversation, params: Params) -> None:
    """The last line is half a line; exit `status` (0)."""
    play.stream.raw(b'{"type":"assistant","message":{"id":"msg_torn","content":[{"type":"te')
    os._exit(params.get("status", 0))


@_at(Moment.WORK)
def noise(play: Conversation, params: Params) -> None:
    """Lines that are no JSON, JSON that is no object, an empty line, noise before an object."""
    play.stream.raw(b"[SandboxDebug] not for you\nnull\n[1, 2]\n\n\x00\xff\xfe\n")
    play.stream.raw(b'Now using node v22 {"type":"system","subtype":"notification"}\n')


@_at(Moment.WORK)
def unknown_types(play: Conversation, params: Params) -> None:
    """Line types and fields that nobody has heard of."""
    play.stream.line({"type": "telepathy", "payload": {"deep": [1, {"er": None}]}})
    play.stream.line({"type": "system", "subtype": "unheard_of", "n": 1e300})
    play.stream.line({"subtype": "no type at all"})
    play.stream.line({"type": "rate_limit_event", "rate_limit_info": {"status": "purple"}})
    play.stream.line({"type": "result_of_something_else", "is_error": True})


@_at(Moment.WORK)
def control_frames(play: Conversation, params: Params) -> None:
    """Frames of the protocol between a host and the client, which is not spoken here."""
    for kind in ("keep_alive", "control_request", "control_cancel_request", "transcript_mirror"):
        play.stream.line({"type": kind, "request_id": "r1", "request": {"subtype": "interrupt"}})


@_at(Moment.WORK)
def as_array(play: Conversation, params: Params) -> None:
    """Several events on one line, as an array."""
    event = {"type": "system", "subtype": "notification", "text": "one of two"}
    play.stream.line_of([event, event])


@_at(Moment.WORK)
def huge_line(play: Conversation, params: Params) -> None:
    """One tool result of `bytes` (2 MiB)."""
    said = "x" * int(params.get("bytes", 2 << 20))
    play.stream.tool_result("toolu_huge", said, error=False, raw=None)


@_at(Moment.WORK)
def split_characters(play: Conversation, params: Params) -> None:
    """Writes a line byte by byte, with characters of several bytes, U+2028 and a lone surrogate."""
    text = '{"type":"system","subtype":"notification","text":"ü€😀\u2028 \\ud800"}\n'
    for byte in text.encode():
        play.stream.raw(bytes([byte]))


@_at(Moment.WORK)
def limit_words(play: Conversation, params: Params) -> None:
    """A tool's output quotes a usage limit; it is not one."""
    said = "You've hit your 5-hour limit · resets 3pm (UTC)"
    play.stream.tool_result("toolu_words", said, error=False, raw=None)
