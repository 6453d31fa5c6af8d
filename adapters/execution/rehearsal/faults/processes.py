"""Processes that hang, die, do not listen, or leave others behind."""

import os
import signal
import sys
import time

from adapters.execution.rehearsal.conversation import Conversation, Moment, Params
from adapters.execution.rehearsal.faults.kind import be_silent, registry

KINDS, _at = registry()


@_at(Moment.WORK)
def hang(play: Conversation, params: Params) -> None:
    """Says nothing more for `seconds` (for ever), then goes on."""
    be_silent(params)


@_at(Moment.WORK)
def ignores_signals(play: Conversation, params: Params) -> None:
    """From now on SIGINT and SIGTERM do nothing; says so, and hangs for `seconds` (for ever)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    play.stream.user([{"type": "text", "text": "I do not listen."}])
    be_silent(params)


@_at(Moment.WORK)
def crash(play: Conversation, params: Params) -> None:
    """Dies of a `signal` (9) that the driver did not send, in the middle."""
    os.kill(os.getpid(), params.get("signal", signal.SIGKILL))


@_at(Moment.WORK)
def crash_in_tool(play: Conversation, params: Params) -> None:
    """Dies by SIGKILL while its tool runs; the tool, `sleep` for `seconds` (30), survives."""
    if os.fork() == 0:
        time.sleep(params.get("delay_s", 0.1))
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    play.tools.use("Bash", {"command": f"sleep {params.get('seconds', 30)}"})


@_at(Moment.WORK)
def grandchild_holds_stdout(play: Conversation, params: Params) -> None:
    """Leaves a process of its own session behind that keeps stdout open for `seconds` (60)."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(params.get("seconds", 60))
        os._exit(0)


@_at(Moment.WORK)
def orphan(play: Conversation, params: Params) -> None:
    """Leaves `count` (1) commands running in the background for `seconds` (60); they ignore
    SIGTERM where `deaf` is true."""
    deaf = "trap '' TERM; " if params.get("deaf") else ""
    command = f"({deaf}sleep {params.get('seconds', 60)}) >/dev/null 2>&1 &"
    play.tools.use("Bash", {"command": "\n".join([command] * params.get("count", 1))})


@_at(Moment.WORK)
def goes_on_unheard(play: Conversation, params: Params) -> None:
    """Standard output stops; the session goes on for `seconds` (0.2), and ends well, unheard."""
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    time.sleep(params.get("seconds", 0.2))


@_at(Moment.EXIT)
def hang_after_result(play: Conversation, params: Params) -> None:
    """Lives on for `seconds` (for ever) after its result; deaf to signals where `deaf` is true."""
    if params.get("deaf"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    be_silent(params)


@_at(Moment.EXIT)
def wrong_status(play: Conversation, params: Params) -> None:
    """Exits with `status` (1), whatever the result says."""
    play.exit_status = params.get("status", 1)


@_at(Moment.EXIT)
def killed_after_result(play: Conversation, params: Params) -> None:
    """Dies by SIGKILL when all is said."""
    os.kill(os.getpid(), signal.SIGKILL)
