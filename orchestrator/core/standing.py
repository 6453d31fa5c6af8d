"""How an account stands: its usage windows, and the last word on its limit.

Every driver of the account keeps this in its run's state, and they share it on a host.
Invariant: of two words on the same thing the later one counts, whoever heard it; a
reset that has passed says nothing.
"""

from collections.abc import Mapping

import msgspec

from orchestrator.core.events import (
    CooldownEnded,
    CooldownStarted,
    KnownEvent,
    WindowObserved,
)
from orchestrator.core.model import Record, Window
from orchestrator.core.state import RunState
from orchestrator.core.windows import ends_at, heard, until

WINDOWS_MAX = 16
AHEAD_S_MAX = 60.0
"""What is dated later than this was written before the clock was set back: it says nothing."""
REASON_CHARS_MAX = 300
PROBES_MAX = 1000


class Limit(Record, frozen=True, kw_only=True):
    """The last word on it."""

    at: float
    """Epoch seconds."""
    until: float | None = None
    """Rejected until then, and then one canary goes first.  None: open."""
    reason: str = ""
    probes: int = 0
    """Rejections in a row that named no moment to come."""


class Standing(Record, frozen=True, kw_only=True):
    windows: tuple[Window, ...] = ()
    limit: Limit | None = None


def standing_of(state: RunState) -> Standing:
    """As this run knows it."""
    limit = None
    if state.limit_said_at:
        limit = Limit(
            at=state.limit_said_at,
            until=state.cooldown_until,
            reason=state.cooldown_reason[:REASON_CHARS_MAX] if state.cooldown_until else "",
            probes=state.probes,
        )
    return Standing(windows=tuple(state.windows.values()), limit=limit)


def merged(one: Standing, other: Standing, now: float) -> Standing:
    """What is known when both are."""
    windows: dict[str, Window] = {}
    for window in (*one.windows, *other.windows):
        held = windows.get(window.name)
        is_news = held is None or window.observed_at > held.observed_at
        if is_news and _says_something(window, now):
            windows[window.name] = window
    latest = sorted(windows.values(), key=lambda window: window.observed_at)[-WINDOWS_MAX:]
    limits = [
        limit
        for limit in (one.limit, other.limit)
        if limit is not None and limit.at <= now + AHEAD_S_MAX
    ]
    limit = max(limits, key=lambda limit: limit.at, default=None)
    return Standing(windows=tuple(sorted(latest, key=lambda w: w.name)), limit=limit)


def news(
    state: RunState, standing: Standing, *, account: str, now: float
) -> tuple[KnownEvent, ...]:
    """What others have found out that this run does not know yet: as far as it can be meant."""
    is_another = state.account != account
    held: Mapping[str, Window] = {} if is_another and state.account else state.windows
    windows = tuple(
        heard(window, now)
        for window in standing.windows
        if _says_something(window, now) and is_news(window, held.get(window.name))
    )
    events: list[KnownEvent] = []
    if windows or is_another:
        events.append(WindowObserved(windows=windows, account=account))
    limit = standing.limit
    said_at = 0.0 if is_another and state.account else state.limit_said_at
    if limit is None or not said_at < limit.at <= now + AHEAD_S_MAX:
        return tuple(events)
    if limit.until is None:
        if state.canary == "account" and not is_another:
            events.append(CooldownEnded(reason=limit.reason, at=limit.at, by=account))
    elif limit.until > now and limit.until != (None if is_another else state.cooldown_until):
        events.append(
            CooldownStarted(
                until=until(limit.until, at=now, settings=state.settings),
                reason=limit.reason[:REASON_CHARS_MAX],
                at=limit.at,
                probes=min(max(limit.probes, 0), PROBES_MAX),
                by=account,
            )
        )
    return tuple(events)


def is_news(window: Window, held: Window | None) -> bool:
    """It is later, and says something else."""
    if held is None:
        return True
    same_moment = msgspec.structs.replace(window, observed_at=held.observed_at)
    return window.observed_at > held.observed_at and same_moment != held


def _says_something(window: Window, now: float) -> bool:
    return ends_at(window) > now and window.observed_at <= now + AHEAD_S_MAX
