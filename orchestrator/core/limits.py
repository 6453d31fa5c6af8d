"""What a used-up limit or an outage makes of the next start: until when it waits.

No attempt is spent in any of this.  Every wait is spread, so that those who were refused
together do not come back together.
"""

import zlib
from collections.abc import Sequence

from orchestrator.core.events import CooldownEnded, CooldownStarted, KnownEvent, WindowObserved
from orchestrator.core.model import Ending, Window
from orchestrator.core.standing import is_news
from orchestrator.core.state import Lease, RunState, TaskState
from orchestrator.core.windows import believed, ends_at, heard, model_in

PROBES_DOUBLED_MAX = 4
OUTAGE_DELAY_S_MAX = 1800.0
OUTAGE_SPREAD = 0.25
"""Of the delay: what is added at most."""


def met(
    state: RunState, task: TaskState, ending: Ending, now: float
) -> tuple[float | None, Sequence[KnownEvent]]:
    """A call met the account's limit: when the task may try again, and what all others learn.

    A limit of one model stops that model alone.
    """
    said_at = min(ending.ended_at or now, now)
    rejected = _rejected(ending, said_at, now)
    windows = [w for w in rejected if is_news(w, state.windows.get(w.name))]
    seen = [WindowObserved(windows=tuple(windows), account=state.account)] if windows else []
    if state.cooldown_until is None and 0 < said_at <= state.limit_said_at:
        return None, seen  # it is open again since then
    is_of_a_model = bool(rejected) and all(model_in(window.name) for window in rejected)
    until = _until(state, task, ending, said_at, now)
    if until is None or is_of_a_model:
        return until, seen
    if state.cooldown_until is not None and until <= state.cooldown_until:
        return until, seen
    is_dated = (believed(ending.resets_at, at=now) or 0.0) > now
    is_probe = state.cooldown_until is None or said_at >= state.cooldown_until
    cooldown = CooldownStarted(
        until=until,
        reason=ending.error or "usage limit",
        at=said_at,
        probes=0 if is_dated else state.probes + is_probe,
    )
    return until, [*seen, cooldown]


def _until(
    state: RunState, task: TaskState, ending: Ending, said_at: float, now: float
) -> float | None:
    """None: it is over by now."""
    settings, resets_at = state.settings, believed(ending.resets_at, at=now)
    if resets_at is not None and resets_at > now:
        return resets_at + settings.limit_jitter_s * spread(f"{state.run_id}/{task.slug}")
    if resets_at is not None and said_at < resets_at:
        return None  # it was said before the reset, and is heard after it
    if resets_at is not None or state.probes:
        # It outlasts its reset: one canary asks again, less and less often.
        return now + settings.limit_probe_s * 2.0 ** min(state.probes, PROBES_DOUBLED_MAX)
    return now + settings.limit_delay_s


def passed(state: RunState, lease: Lease, ending: Ending, now: float) -> Sequence[KnownEvent]:
    """A stage succeeded: after the end of a limit that says that the account is open again."""
    ended_at = min(ending.ended_at or now, now)
    is_waited_for = state.canary == "account" and state.cooldown_until is not None
    if not is_waited_for or lease.stage.is_deterministic or ended_at < (state.cooldown_until or 0):
        return ()
    return (CooldownEnded(reason=f"{lease.work_item_id} succeeded", at=now),)


def answered(state: RunState, work_item_id: str, now: float) -> Sequence[KnownEvent]:
    """A model has answered a dispatch: for one that was sent as a canary, the limit is over."""
    if state.canary != "account" or state.cooldown_until is None:
        return ()
    for lease in state.in_flight.values():
        if lease.work_item_id == work_item_id and lease.dispatched_at >= state.cooldown_until:
            return (CooldownEnded(reason=f"{work_item_id} was answered", at=now),)
    return ()


def after_outage(state: RunState, task: TaskState, now: float) -> float:
    """When a task tries again whose call found the API away, or was throttled."""
    delay_s = min(state.settings.outage_delay_s * 2.0 ** min(task.outages, 16), OUTAGE_DELAY_S_MAX)
    more = OUTAGE_SPREAD * spread(f"{state.run_id}/{task.slug}/{task.outages}")
    return now + delay_s * (1.0 + more)


def spread(name: str) -> float:
    """A share of 1 that differs from name to name: several drivers do not wake as one."""
    return (zlib.crc32(name.encode()) % 1000) / 1000.0


def _rejected(ending: Ending, said_at: float, now: float) -> list[Window]:
    told = (heard(window, said_at) for window in ending.windows if window.status == "rejected")
    return [window for window in told if ends_at(window) > now]
