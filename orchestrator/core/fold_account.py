"""Fold what is heard of the account: its usage windows, and its limit."""

from collections.abc import Iterable

from orchestrator.core.events import (
    CooldownEnded,
    CooldownStarted,
    Entry,
    KnownEvent,
    WindowObserved,
)
from orchestrator.core.rates import observe
from orchestrator.core.standing import WINDOWS_MAX
from orchestrator.core.state import RunState
from orchestrator.core.windows import heard, until


def cooldown_started(state: RunState, event: CooldownStarted, entry: Entry) -> None:
    if event.task_id is not None:
        return
    at = entry.ts if event.at is None else event.at
    is_probe = state.cooldown_until is None or at >= state.cooldown_until
    state.probes = state.probes + is_probe if event.probes is None else event.probes
    state.cooldown_until = until(event.until, at=max(at, entry.ts), settings=state.settings)
    state.cooldown_reason = event.reason
    state.canary = "account"
    state.limit_said_at = at


def cooldown_ended(state: RunState, event: CooldownEnded, entry: Entry) -> None:
    _open(state)
    state.limit_said_at = entry.ts if event.at is None else event.at


def window_observed(state: RunState, event: WindowObserved, entry: Entry) -> None:
    if event.account and state.account and event.account != state.account:
        state.windows.clear()
        state.window_rates.clear()
        state.limit_said_at = 0.0
        _open(state)
    state.account = event.account or state.account
    for window in event.windows:
        held = state.windows.get(window.name)
        if held is not None and 0.0 < window.observed_at < held.observed_at:
            continue
        kept = state.windows[window.name] = heard(window, entry.ts)
        observe(state, kept)
    while len(state.windows) > WINDOWS_MAX:
        oldest = min(state.windows.values(), key=lambda known: known.observed_at)
        del state.windows[oldest.name]
        state.window_rates.pop(oldest.name, None)


def hear(state: RunState, events: Iterable[KnownEvent], now: float) -> None:
    """What a look at the run should know, and its journal does not: for a person's eyes."""
    for event in events:
        entry = Entry(seq=state.seq, ts=now, run_id=state.run_id, event=event)
        match event:
            case CooldownStarted():
                cooldown_started(state, event, entry)
            case CooldownEnded():
                cooldown_ended(state, event, entry)
            case WindowObserved():
                window_observed(state, event, entry)
            case _:
                pass


def _open(state: RunState) -> None:
    state.cooldown_until = None
    state.cooldown_reason = ""
    state.probes = 0
    if state.canary == "account":
        # One that a pause asked for is still to come.
        state.canary = "model" if state.is_stormy or state.breakers.tripped else ""
