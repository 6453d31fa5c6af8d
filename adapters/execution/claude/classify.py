"""How a dispatch ended, from what its child said and how it exited.

In this order: what the last result says; without one, how the process ended.  The exit status
is a hint: a client that was interrupted exits with 0, and a kill after a good result is no
failure.  Success needs a result without error **and** work done in this process.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from signal import Signals
from typing import Any

from adapters.execution.claude import billing, limits, verdicts, wire
from adapters.execution.claude.schema import misfit
from adapters.execution.claude.stream import Result, Seen
from adapters.execution.claude.verdicts import Means
from adapters.execution.lanes import StartAgain
from adapters.execution.telling import telling_line
from orchestrator.core.model import Cause, ChildExit, ResultStatus
from orchestrator.core.windows import believed

_REFUSED_TO_START = frozenset({1, 2})
_NOT_RUNNABLE = frozenset({126, 127})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    status: ResultStatus
    cause: Cause | None = None
    error: str = ""
    structured_output: Any = None
    resets_at: float | None = None
    session_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """All there is to judge by."""

    seen: Seen
    exit: ChildExit
    stderr_tail: str
    schema: Mapping[str, Any] | None
    again: bool
    """This was the second start of the dispatch."""
    now: float

    @property
    def said_at(self) -> float:
        """When the stream's last dated line was written: a harvest may come much later."""
        try:
            return datetime.fromisoformat(self.seen.timestamp).timestamp()
        except (ValueError, OverflowError, OSError):
            return self.now


def classify(ended: Ended) -> Verdict | StartAgain:
    seen = ended.seen
    if seen.bills_wrongly:
        means = Means(Cause.MISCONFIGURED, seen.bills_wrongly, billing.remedy(seen.billing))
        return _failed(means)
    result = seen.final_result
    session = _session_trouble(ended, result)
    if session is not None:
        return session
    if result is None:
        return _without_result(ended)
    if result.is_error or result.subtype != "success":
        return _failed_result(ended, result)
    return _succeeded(ended, result)


def _session_trouble(ended: Ended, result: Result | None) -> Verdict | StartAgain | None:
    """--resume of a session that is not there, or --session-id of one that is."""
    if ended.seen.replies:
        return None
    said = result.said if result is not None and result.is_error else ""
    said = said or ("" if ended.seen.started else ended.stderr_tail)
    unknown = verdicts.SESSION_UNKNOWN.search(said)
    if not unknown and not verdicts.SESSION_IN_USE.search(said):
        return None
    if not ended.again:
        return StartAgain("the session does not exist" if unknown else "the session exists already")
    return _failed(verdicts.SESSION_GONE, said)


def _succeeded(ended: Ended, result: Result) -> Verdict:
    if result.stop_reason == "refusal":
        return _failed(Means(Cause.WORK_ERROR, "the model refused", session_lost=True), result.text)
    if not ended.seen.replies or not result.turns:
        return _failed(
            Means(Cause.INVALID_OUTPUT, "it reported success without having done anything"),
            result.text,
        )
    if ended.seen.subagents_lost:
        return _failed(
            Means(
                Cause.INVALID_OUTPUT,
                "it reported success while a subagent was at work, whose work is lost",
            ),
            status=ResultStatus.FAILURE,
        )
    if ended.schema is None:
        return Verdict(status=ResultStatus.SUCCESS)
    output = result.structured_output
    if output is None:
        output = _as_json(result.text)
    wrong = "there is none" if output is None else misfit(output, ended.schema)
    if wrong:
        said = result.text if output is None else ""
        return _failed(
            Means(Cause.INVALID_OUTPUT, f"its output does not fit the schema: {wrong}"),
            said,
            status=ResultStatus.SCHEMA_VIOLATION,
        )
    return Verdict(status=ResultStatus.SUCCESS, structured_output=output)


def _as_json(text: str) -> Any:
    """The model may have written the object out instead of handing it in."""
    text = text.strip().removeprefix("```json").removesuffix("```")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _failed_result(ended: Ended, result: Result) -> Verdict:
    means = next(filter(None, (step(ended, result) for step in _STEPS)))
    resets_at = None
    if means.cause is Cause.LIMIT:
        resets_at = _resets_at(ended, result)
        if resets_at is None and limits.needs_money(result.said):
            means = Means(
                Cause.BILLING, "the account's usage is spent", "add to it, then `unpause`"
            )
    elif means.cause is Cause.INTERRUPTED and ended.exit.reason == "deadline":
        means = _DEADLINE
    elif means.cause is Cause.INTERRUPTED and ended.exit.reason == "hung":
        return _failed(_hung(ended.exit))
    elif means.cause is Cause.INTERRUPTED and ended.exit.reason == "exited":
        # Not by this driver: it is bounded, and slows down, like any other death.
        means = means._replace(cause=Cause.CRASH)
    status = ResultStatus.SCHEMA_VIOLATION if means.cause is Cause.INVALID_OUTPUT else None
    said = "" if means is _DEADLINE else result.said
    return _failed(means, said, status=status, resets_at=resets_at)


def _by_startup(ended: Ended, result: Result) -> Means | None:
    reason = result.startup_failure_reason
    return verdicts.STARTUP.get(reason, verdicts.STARTUP_OTHERWISE) if reason else None


def _by_limit(ended: Ended, result: Result) -> Means | None:
    """A rejected window, or the client's words for one.  Nothing else waits for a reset."""
    rejected = any(window.status == "rejected" for window in ended.seen.windows.values())
    is_limit = (
        result.api_error == "usage_limit_reached"
        or limits.is_limit(result.said)
        or (rejected and (result.api_error_status == 429 or ended.seen.error == "rate_limit"))
    )
    return Means(Cause.LIMIT, "the account's usage limit is reached") if is_limit else None


def _by_api_status(ended: Ended, result: Result) -> Means | None:
    if result.api_error_status >= 500:
        return verdicts.API_STATUS[408]
    return verdicts.API_STATUS.get(result.api_error_status)


def _by_message_error(ended: Ended, result: Result) -> Means | None:
    return verdicts.MESSAGE_ERROR.get(ended.seen.error)


def _by_reason(ended: Ended, result: Result) -> Means | None:
    return verdicts.TERMINAL.get(result.terminal_reason) or verdicts.SUBTYPE.get(result.subtype)


def _by_text(ended: Ended, result: Result) -> Means | None:
    return _first(verdicts.TEXT, result.said)


def _by_kind(ended: Ended, result: Result) -> Means | None:
    return verdicts.API_STATUS_AFTER_TEXT.get(
        result.api_error_status
    ) or verdicts.MESSAGE_ERROR_AFTER_TEXT.get(ended.seen.error)


def _otherwise(ended: Ended, result: Result) -> Means:
    """Without any work done, a wait is better than a tight loop, whatever the words were."""
    if ended.exit.reason in ("deadline", "stopped", "hung"):
        return Means(Cause.INTERRUPTED, "stopped in the middle of its work")
    if not ended.seen.replies:
        return Means(Cause.OUTAGE, "it failed before it could work")
    return Means(Cause.WORK_ERROR, "the client gave up")


_STEPS: tuple[Callable[[Ended, Result], Means | None], ...] = (
    _by_startup,
    _by_limit,
    _by_api_status,
    _by_message_error,
    _by_reason,
    _by_text,
    _by_kind,
    _otherwise,
)
"""The most exact evidence first; the last one always answers."""

_DEADLINE = Means(Cause.TIMEOUT, "it did not end before its deadline")


def _hung(exit_: ChildExit) -> Means:
    """The executor says what it saw of it: see guard.py."""
    return Means(Cause.CRASH, exit_.error)


def _resets_at(ended: Ended, result: Result) -> float | None:
    told = (
        believed(window.resets_at, at=ended.now)
        for window in ended.seen.windows.values()
        if window.status == "rejected"
    )
    named = [resets_at for resets_at in told if resets_at is not None]
    return max(named) if named else limits.resets_at(result.said, now=ended.said_at)


def _without_result(ended: Ended) -> Verdict:
    exit_, seen = ended.exit, ended.seen
    said = telling_line(ended.stderr_tail)
    if exit_.reason == "spawn_failed" or exit_.code in _NOT_RUNNABLE:
        return _failed(
            Means(
                Cause.MISCONFIGURED,
                "the client could not be started",
                "install it, or correct agent.command in the project file",
            ),
            exit_.error or said,
        )
    if exit_.reason == "deadline":
        return _failed(_DEADLINE)
    if exit_.reason == "hung":
        return _failed(_hung(exit_))
    if exit_.reason == "stopped":
        return _failed(Means(Cause.INTERRUPTED, "stopped in the middle of its work"))
    if not seen.started and not seen.replies and exit_.code in _REFUSED_TO_START:
        means = _first(verdicts.STDERR, ended.stderr_tail) or verdicts.STDERR_OTHERWISE
        if said:
            return _failed(means, said)
    doing = f" while it ran {', '.join(sorted(set(seen.tools.values())))}" if seen.tools else ""
    return _failed(Means(Cause.CRASH, f"{_how_it_died(exit_)}{doing}"), said)


def _how_it_died(exit_: ChildExit) -> str:
    signal = exit_.signal
    if signal is None and exit_.code is not None and 128 < exit_.code < 160:
        signal = exit_.code - 128
    if signal is not None:
        name = Signals(signal).name if signal in set(Signals) else f"signal {signal}"
        memory = "; was the machine out of memory?" if name == "SIGKILL" else ""
        return f"killed by {name}, which this driver did not send{memory}"
    if exit_.reason == "shim_lost":
        return "its supervisor was killed, and it left no result"
    return f"ended without a result (exit {exit_.code})"


def _first(table: Iterable[tuple[Any, Means]], said: str) -> Means | None:
    return next((means for pattern, means in table if pattern.search(said[:4000])), None)


def _failed(
    means: Means,
    said: str = "",
    *,
    status: ResultStatus | None = None,
    resets_at: float | None = None,
) -> Verdict:
    """The error: what happened, in the client's own words too, and how to mend it."""
    words = wire.one_line(said)
    error = means.what + (f": {words}" if words else "")
    return Verdict(
        status=status or verdicts.STATUS_OF.get(means.cause, ResultStatus.FAILURE),
        cause=means.cause,
        error=f"{error}; {means.remedy}" if means.remedy else error,
        resets_at=resets_at,
        session_lost=means.session_lost,
    )
