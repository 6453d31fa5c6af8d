"""A start that comes to nothing, or to something else than was asked for."""

import os
import sys
import time

from adapters.execution.rehearsal import endings
from adapters.execution.rehearsal.conversation import Conversation, Ended, Moment, Params
from adapters.execution.rehearsal.faults.kind import be_silent, registry

KINDS, _at = registry()


@_at(Moment.START)
def silent_start(play: Conversation, params: Params) -> None:
    """Nothing at all for `seconds` (default: for ever)."""
    be_silent(params)


@_at(Moment.START)
def slow(play: Conversation, params: Params) -> None:
    """Takes `seconds` (10) longer to start than it should."""
    time.sleep(params.get("seconds", 10))


@_at(Moment.START)
def exit_at_once(play: Conversation, params: Params) -> None:
    """Ends with `status` (1) and `stderr`, and no line."""
    sys.stderr.write(params.get("stderr", "rehearsal: told to fail\n"))
    sys.stderr.flush()
    os._exit(params.get("status", 1))


@_at(Moment.START)
def startup_failure(play: Conversation, params: Params) -> None:
    """Does not start, for `reason` (config_file_invalid): one result line, and nothing before."""
    reason = params.get("reason", "config_file_invalid")
    said = params.get("says", f"Cannot start: {reason}")
    play.stream.line(endings.not_started(play.session.id, said, startup_failure_reason=reason))
    raise Ended(1)


@_at(Moment.START)
def stderr_flood(play: Conversation, params: Params) -> None:
    """Writes `bytes` (1 MiB) to standard error, then works."""
    line = b"warning: the rehearsal agent floods standard error\n"
    data = line * (int(params.get("bytes", 1 << 20)) // len(line) + 1)
    while data:
        data = data[os.write(2, data) :]


@_at(Moment.START)
def another_key(play: Conversation, params: Params) -> None:
    """Bills an API key that nobody named: its own settings hold one."""
    play.key_source = params.get("source", "ANTHROPIC_API_KEY")


@_at(Moment.START)
def another_model(play: Conversation, params: Params) -> None:
    """Answers with `model` (claude-haiku-4-5), whatever was asked for."""
    play.stream.model = params.get("model", "claude-haiku-4-5")
