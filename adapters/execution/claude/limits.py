"""The client's words for a used-up allowance, and the moment they name.

Read from the text of a failed result only: the same words in a tool's output mean nothing.
Wordings of every client since 2025; an event in the stream, where there is one, is better.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from orchestrator.core.windows import RESET_AHEAD_S_MAX, believed

_LIMIT = re.compile(
    r"you've hit your|you've reached your|you're out of (usage credits|extra usage)"
    r"|your org is out of usage|your seat type doesn't include"
    r"|your usage allocation has been disabled|your group's usage limit is set to"
    r"|[\w .-]{1,30} requires usage credits"
    r"|claude (ai )?usage limit reached|\d+-hour limit reached|weekly limit reached",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"usage credits|out of usage|seat type|disabled by your admin|limit is set to|spend limit",
    re.IGNORECASE,
)
"""Waiting does not end these, unless a moment is named."""

_OF_A_MODEL = re.compile(r"you've (?:hit|reached) your (opus|sonnet|haiku|fable)\b", re.IGNORECASE)

_EPOCH = re.compile(r"limit reached\|(\d{10})(?:\d{3})?(?:\D|$)", re.IGNORECASE)
_RESETS = re.compile(
    r"resets? (?:at )?"
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*,? (?:at )?)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (?P<day>\d{1,2}),? "
    r"(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>am|pm)?"
    r"(?: \((?P<zone>[\w/+-]{1,50})\))?",
    re.IGNORECASE,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS_MAX = RESET_AHEAD_S_MAX / 86_400


def normal(said: str) -> str:
    """One apostrophe, one separator, single spaces."""
    said = said[:2000].translate({0x2019: "'", 0x2219: "·", 0x2022: "·"})
    return " ".join(said.split())


def is_limit(said: str) -> bool:
    return _LIMIT.match(normal(said).removeprefix("API Error: ")) is not None


def window_named(said: str) -> str:
    """The usage window of one model that a message is about; "" where it is about all."""
    found = _OF_A_MODEL.search(normal(said))
    return f"seven_day_{found[1].lower()}" if found else ""


def needs_money(said: str) -> bool:
    """A limit that does not end by itself."""
    return _MONEY.search(normal(said)) is not None


def resets_at(said: str, *, now: float) -> float | None:
    """The moment that a message names, epoch seconds; ``now`` is when it was written."""
    said = normal(said)
    if epoch := _EPOCH.search(said):
        return believed(float(epoch[1]), at=now)
    found = _RESETS.search(said)
    if found is None:
        return None
    try:
        return _moment(found, now)
    except (ValueError, OverflowError, OSError):
        return None


def _moment(found: re.Match[str], now: float) -> float | None:
    """A day or an hour alone is the next one."""
    said = {name: (value or "").lower() for name, value in found.groupdict().items()}
    here = datetime.fromtimestamp(now, UTC).astimezone(_zone(found["zone"]))
    hour = int(said["hour"])
    if said["half"]:
        hour = hour % 12 + (12 if said["half"] == "pm" else 0)
    at = here.replace(hour=hour, minute=int(said["minute"] or 0), second=0, microsecond=0)
    if said["month"]:
        at = at.replace(month=_MONTHS.index(said["month"][:3]) + 1, day=int(said["day"]))
        if at < here - timedelta(days=_DAYS_MAX):
            at = at.replace(year=at.year + 1)
    elif said["weekday"]:
        at += timedelta(days=(_WEEKDAYS.index(said["weekday"]) - at.weekday()) % 7)
        at += timedelta(days=7 if at <= here else 0)
    elif at <= here:
        at += timedelta(days=1)
    return at.timestamp() if abs(at - here) < timedelta(days=_DAYS_MAX) else None


def _zone(name: str | None) -> tzinfo | None:
    """None: this machine's."""
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
