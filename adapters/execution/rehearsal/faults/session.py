"""Sessions that are lost, in use, renamed, or full."""

import os
import time

from adapters.execution.rehearsal import endings, wire
from adapters.execution.rehearsal.conversation import Conversation, Moment, Params
from adapters.execution.rehearsal.faults.kind import registry
from adapters.execution.rehearsal.options import Refusal
from adapters.execution.rehearsal.sessions import Session

KINDS, _at = registry()


@_at(Moment.START)
def session_in_use(play: Conversation, params: Params) -> None:
    """A --session-id that is refused, for a transcript that came in between."""
    if play.options.session_id is not None:
        play.session.append({"type": "user", "message": {"role": "user", "content": "?"}})
        raise Refusal(f"Error: Session ID {play.session.id} is already in use.")


@_at(Moment.START)
def session_unknown(play: Conversation, params: Params) -> None:
    """A --resume that finds no conversation, although its file is there."""
    if play.options.resume is not None:
        text = f"No conversation found with session ID: {play.session.id}"
        play.stream.line(endings.not_started(wire.uuid(), text))
        raise Refusal(text)


@_at(Moment.START)
def session_renamed(play: Conversation, params: Params) -> None:
    """A --resume that goes on under another id, as older clients do."""
    if play.options.resume is None or play.session.path is None:
        return
    new, old = wire.uuid(), play.session.path
    here = os.path.join(os.path.dirname(old), f"{new}.jsonl")
    play.session = Session.resumed(old, here, new)
    play.stream.session_id = new


@_at(Moment.EXIT)
def transcript_lost(play: Conversation, params: Params) -> None:
    """All is well, and afterwards there is no transcript."""
    if play.session.path is not None:
        os.unlink(play.session.path)


@_at(Moment.EXIT)
def writes_lost(play: Conversation, params: Params) -> None:
    """The disk was full: an event at the end says that the transcript was not written."""
    play.stream.system("session_writes_lost", error_code="ENOSPC", lost=["transcript"])


@_at(Moment.WORK)
def compaction(play: Conversation, params: Params) -> None:
    """Compacts its context, silent for `seconds` (0.1), and goes on; `fails` = true: cannot."""
    play.stream.system("status", status="compacting")
    time.sleep(params.get("seconds", 0.1))
    if params.get("fails"):
        play.stream.system("status", status=None, compact_result="failed")
        _full(play, "Autocompact is thrashing: the context refills", "rapid_refill_breaker")
    metadata = {"trigger": "auto", "pre_tokens": 190_000, "post_tokens": 30_000}
    play.stream.system("compact_boundary", compact_metadata=metadata)


@_at(Moment.WORK)
def context_full(play: Conversation, params: Params) -> None:
    """The prompt is too long: the session's context is used up."""
    _full(play, "Prompt is too long", params.get("reason", "prompt_too_long"))


@_at(Moment.WORK)
def broken_history(play: Conversation, params: Params) -> None:
    """400: the session holds a tool use without its result, and no request will be taken again."""
    play.fail_request(
        "API Error: 400 messages.4: `tool_use` ids were found without `tool_result` blocks"
        " immediately after: toolu_01",
        "invalid_request",
        400,
    )


def _full(play: Conversation, text: str, reason: str) -> None:
    play.stream.api_error(text, "invalid_request")
    play.turns += 1
    end = endings.api_error(text, None)
    play.finish(end._replace(verdict=end.verdict | {"terminal_reason": reason}))
