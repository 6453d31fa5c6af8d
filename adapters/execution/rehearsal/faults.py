"""The failures that a scenario can ask for, by name: ``fault = "hang"``.

Each acts at one moment of a call; adding one is adding a function here.  ``python -m
adapters.execution.rehearsal faults`` prints the list from these docstrings.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from adapters.execution.rehearsal.conversation import Conversation

Params = dict[str, Any]
Act = Callable[["Conversation", Params], None]


class Moment(Enum):
    START = "before the init line"
    BEGIN = "instead of the first request"
    WORK = "after `after` steps; default: after all of them"
    OUTPUT = "in place of the structured output"
    RESULT = "in place of the result line"
    EXIT = "after the result line"


class Kind(NamedTuple):
    moment: Moment
    act: Act
    about: str


KINDS: dict[str, Kind] = {}


def _at(moment: Moment) -> Callable[[Act], Act]:
    def register(act: Act) -> Act:
        KINDS[act.__name__] = Kind(moment, act, act.__doc__ or "")
        return act

    return register


def _forever() -> None:
    while True:
        time.sleep(3600)


# -- before anything is said ------------------------------------------------


@_at(Moment.START)
def silent_start(play: "Conversation", params: Params) -> None:
    """Nothing at all for `seconds` (default: for ever)."""
    if "seconds" not in params:
        _forever()
    time.sleep(params["seconds"])


@_at(Moment.START)
def exit_at_once(play: "Conversation", params: Params) -> None:
    """Ends with `status` (1) and `stderr`, and no line."""
    sys.stderr.write(params.get("stderr", "rehearsal: told to fail\n"))
    sys.stderr.flush()
    os._exit(params.get("status", 1))


@_at(Moment.START)
def stderr_flood(play: "Conversation", params: Params) -> None:
    """Writes `bytes` (1 MiB) to standard error, then works."""
    line = b"warning: the rehearsal agent floods standard error\n"
    data = line * (int(params.get("bytes", 1 << 20)) // len(line) + 1)
    while data:
        data = data[os.write(2, data) :]


@_at(Moment.START)
def slow(play: "Conversation", params: Params) -> None:
    """Takes `seconds` (10) longer to start than it should."""
    time.sleep(params.get("seconds", 10))


# -- the API answers with an error ------------------------------------------


@_at(Moment.BEGIN)
def rate_limited(play: "Conversation", params: Params) -> None:
    """The subscription's `window` (five_hour) is used up; it resets in `resets_in_s` (3600)."""
    resets_at = int(time.time() + params.get("resets_in_s", 3600))
    info = {
        "status": "rejected",
        "resetsAt": resets_at,
        "rateLimitType": params.get("window", "five_hour"),
        "isUsingOverage": False,
    }
    play.stream.rate_limit_event(info)
    at = time.strftime("%I:%M%p", time.gmtime(resets_at)).lstrip("0").lower()
    play.finish_api_error(
        f"You've hit your 5-hour limit · resets {at} (UTC)",
        "rate_limit",
        429,
        api_error_type="rate_limit_error",
        api_error="usage_limit_reached",
    )


@_at(Moment.BEGIN)
def throttled(play: "Conversation", params: Params) -> None:
    """429 of an API key: no window, no time of reset."""
    play.finish_api_error(
        "API Error: Request rejected (429) · This request would exceed your account's rate limit."
        " Please try again later.",
        "rate_limit",
        429,
        api_error_type="rate_limit_error",
    )


@_at(Moment.BEGIN)
def overloaded(play: "Conversation", params: Params) -> None:
    """529 after `retries` (2) retries of `delay_s` (0.05)."""
    _retries(play, params, 529)
    play.finish_api_error(
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in"
        " a moment.",
        "server_error",
        529,
        api_error_type="overloaded_error",
    )


@_at(Moment.BEGIN)
def unreachable(play: "Conversation", params: Params) -> None:
    """The connection is refused, after `retries` (2) retries of `delay_s` (0.05)."""
    _retries(play, params, None)
    play.finish_api_error(
        "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        "server_error",
        None,
        api_error="connection_failed",
    )


@_at(Moment.BEGIN)
def retries(play: "Conversation", params: Params) -> None:
    """`retries` (2) retries of `delay_s` (0.05), and then it works."""
    _retries(play, params, 529)


@_at(Moment.BEGIN)
def auth_failed(play: "Conversation", params: Params) -> None:
    """401: the key or login is not valid."""
    play.finish_api_error(
        "Invalid API key · Fix external API key",
        "authentication_failed",
        401,
        api_error_type="authentication_error",
    )


@_at(Moment.BEGIN)
def not_logged_in(play: "Conversation", params: Params) -> None:
    """No login and no key."""
    play.finish_api_error("Not logged in · Please run /login", "authentication_failed", None)


@_at(Moment.BEGIN)
def no_credit(play: "Conversation", params: Params) -> None:
    """Billing: the balance is too low."""
    play.finish_api_error(
        "Credit balance is too low",
        "billing_error",
        400,
        api_error_type="invalid_request_error",
    )


@_at(Moment.BEGIN)
def zero_work(play: "Conversation", params: Params) -> None:
    """Success, and nothing was done: no request, no turn, no words."""
    play.finish_success("")


# -- in the middle of the work ----------------------------------------------


@_at(Moment.WORK)
def hang(play: "Conversation", params: Params) -> None:
    """Says nothing more for `seconds` (for ever), then goes on."""
    silent_start(play, params)


@_at(Moment.WORK)
def ignores_signals(play: "Conversation", params: Params) -> None:
    """From now on SIGINT and SIGTERM do nothing; says so, and hangs for `seconds` (for ever)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    play.stream.user([{"type": "text", "text": "I do not listen."}])
    silent_start(play, params)


@_at(Moment.WORK)
def crash(play: "Conversation", params: Params) -> None:
    """Dies of its own `signal` (9), in the middle."""
    os.kill(os.getpid(), params.get("signal", signal.SIGKILL))


@_at(Moment.WORK)
def crash_in_tool(play: "Conversation", params: Params) -> None:
    """Dies by SIGKILL while its tool runs; the tool, `sleep` for `seconds` (30), survives."""
    if os.fork() == 0:
        time.sleep(params.get("delay_s", 0.1))
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(0)
    play.tools.use("Bash", {"command": f"sleep {params.get('seconds', 30)}"})


@_at(Moment.WORK)
def exit_without_result(play: "Conversation", params: Params) -> None:
    """Ends with `status` (0) and no result line."""
    os._exit(params.get("status", 0))


@_at(Moment.WORK)
def truncated_tail(play: "Conversation", params: Params) -> None:
    """The last line is half a line; exit `status` (0)."""
    play.stream.raw(b'{"type":"assistant","message":{"id":"msg_torn","content":[{"type":"te')
    os._exit(params.get("status", 0))


@_at(Moment.WORK)
def max_turns(play: "Conversation", params: Params) -> None:
    """Stops at --max-turns, whatever it was."""
    play.finish_turns()


@_at(Moment.WORK)
def max_budget(play: "Conversation", params: Params) -> None:
    """Stops at --max-budget-usd, whatever it was."""
    play.finish_budget()


@_at(Moment.WORK)
def noise(play: "Conversation", params: Params) -> None:
    """Lines that are no JSON, JSON that is no object, an empty line."""
    play.stream.raw(b"[SandboxDebug] not for you\nnull\n[1, 2]\n\n\x00\xff\xfe\n")


@_at(Moment.WORK)
def unknown_types(play: "Conversation", params: Params) -> None:
    """Line types and fields that nobody has heard of."""
    play.stream.line({"type": "telepathy", "payload": {"deep": [1, {"er": None}]}})
    play.stream.line({"type": "system", "subtype": "unheard_of", "n": 1e300})
    play.stream.line({"subtype": "no type at all"})
    play.stream.line({"type": "rate_limit_event", "rate_limit_info": {"status": "purple"}})
    play.stream.line({"type": "result_of_something_else", "is_error": True})


@_at(Moment.WORK)
def huge_line(play: "Conversation", params: Params) -> None:
    """One tool result of `bytes` (2 MiB)."""
    play.stream.tool_result(
        "toolu_huge", "x" * int(params.get("bytes", 2 << 20)), error=False, raw=None
    )


@_at(Moment.WORK)
def split_characters(play: "Conversation", params: Params) -> None:
    """Writes a line byte by byte, with characters of several bytes, U+2028 and a lone surrogate."""
    text = '{"type":"system","subtype":"notification","text":"ü€😀\u2028 \\ud800"}\n'
    for byte in text.encode():
        play.stream.raw(bytes([byte]))


@_at(Moment.WORK)
def limit_words(play: "Conversation", params: Params) -> None:
    """A tool's output quotes a usage limit; it is not one."""
    play.stream.tool_result(
        "toolu_words", "You've hit your 5-hour limit · resets 3pm (UTC)", error=False, raw=None
    )


@_at(Moment.WORK)
def grandchild_holds_stdout(play: "Conversation", params: Params) -> None:
    """Leaves a process of its own session behind that keeps stdout open for `seconds` (60)."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(params.get("seconds", 60))
        os._exit(0)


@_at(Moment.WORK)
def orphan(play: "Conversation", params: Params) -> None:
    """Leaves a command running in the background for `seconds` (60)."""
    play.tools.use("Bash", {"command": f"sleep {params.get('seconds', 60)} >/dev/null 2>&1 &"})


# -- what comes back ----------------------------------------------------------


@_at(Moment.OUTPUT)
def schema_violation(play: "Conversation", params: Params) -> None:
    """Offers `output`, which does not fit the schema, until the client gives up."""


@_at(Moment.RESULT)
def schema_missing(play: "Conversation", params: Params) -> None:
    """Success, and no structured output in it."""
    record = params["record"]
    record.pop("structured_output", None)
    play.write_result(record | {"result": "I have finished."})


@_at(Moment.RESULT)
def no_result(play: "Conversation", params: Params) -> None:
    """All the work, and no result line; exit `status` (0)."""
    play.exit_status = params.get("status", 0)


@_at(Moment.RESULT)
def two_results(play: "Conversation", params: Params) -> None:
    """The result, and then it again: a background task ended and started another turn."""
    play.write_result(params["record"])
    play.write_result(params["record"] | {"result_index": 1})


@_at(Moment.EXIT)
def hang_after_result(play: "Conversation", params: Params) -> None:
    """Lives on for `seconds` (for ever) after its result."""
    silent_start(play, params)


@_at(Moment.EXIT)
def wrong_status(play: "Conversation", params: Params) -> None:
    """Exits with `status` (1), whatever the result says."""
    play.exit_status = params.get("status", 1)


@_at(Moment.EXIT)
def killed_after_result(play: "Conversation", params: Params) -> None:
    """Dies by SIGKILL when all is said."""
    os.kill(os.getpid(), signal.SIGKILL)


def _retries(play: "Conversation", params: Params, status: int | None) -> None:
    count = params.get("retries", 2)
    for attempt in range(1, count + 1):
        delay_s = params.get("delay_s", 0.05)
        play.stream.api_retry(attempt, count, delay_s, status)
        time.sleep(delay_s)
