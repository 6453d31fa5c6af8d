"""An account's usage windows: how full they are, and how many children that leaves.

Up to ``window_easy_share`` of a window the full limit holds; from there it falls in a
straight line to one child where the human's headroom begins, and within that nothing
starts until the reset.  A window of one model bars that model's stages alone.
"""

import re

import msgspec

from orchestrator.core.bar import Bar
from orchestrator.core.model import Window
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState

_OF_A_MODEL = re.compile(r"(?:five_hour|seven_day)_(?P<model>\w+)")
LASTS_S = (("five_hour", 5 * 3600.0), ("seven_day", 7 * 24 * 3600.0))
"""By the beginning of a window's name: how long it is believed, where its reset was not said."""
UNKNOWN_LASTS_S = 3600.0
"""A window of any other name: so long, and then the next call tells anew."""
REFUSED_LASTS_S = 600.0
"""A rejection that named no reset: after it the account's cooldown says when it is asked again."""
RESET_AHEAD_S_MAX = 40 * 24 * 3600.0
"""No window is longer than a month: a limit that is said to end later was misread, or misspelt."""
SHARE_MAX = 2.0
"""A client may say that a little more than all of a window is used, and nothing beyond that."""


def limit_at(share: float, max_concurrent: int, settings: Settings) -> int:
    """``share``: used of the window, 0 to 1."""
    full = 1.0 - settings.headroom_share
    easy = min(settings.window_easy_share, full)
    if share >= full:
        return 0
    if share <= easy:
        return max_concurrent
    return max(1, round(max_concurrent * (full - share) / (full - easy)))


def is_paid(name: str) -> bool:
    """Of what is paid for beyond the windows: its fullness is the account's own affair."""
    return "overage" in name


def model_in(name: str) -> str:
    """``opus`` of ``seven_day_opus``; empty for a window that all models share."""
    found = None if is_paid(name) else _OF_A_MODEL.fullmatch(name)
    return found["model"] if found else ""


def believed(resets_at: float | None, *, at: float) -> float | None:
    """``at``: when it was said.  None: it was not said when, or that cannot be."""
    if resets_at is None or not 0.0 < resets_at <= at + RESET_AHEAD_S_MAX:
        return None
    return resets_at


def heard(window: Window, at: float) -> Window:
    """A window as it is kept: dated, and without a reset or a share that cannot be."""
    seen_at = window.observed_at or at
    share = window.utilization
    return msgspec.structs.replace(
        window,
        observed_at=seen_at,
        resets_at=believed(window.resets_at, at=seen_at),
        utilization=share if share is not None and 0.0 <= share <= SHARE_MAX else None,
    )


def until(moment: float, *, at: float, settings: Settings) -> float:
    """To when something waits that was told, at ``at``, to wait for ``moment``."""
    is_meant = moment <= at + RESET_AHEAD_S_MAX + settings.limit_jitter_s
    return moment if is_meant else at + settings.limit_delay_s


def ends_at(window: Window) -> float:
    """Its reset.  Where none was said, as long after it was seen as one of its name may last."""
    if window.resets_at is not None:
        return window.resets_at
    if window.status == "rejected":
        return window.observed_at + REFUSED_LASTS_S
    lasts_s = next((s for name, s in LASTS_S if window.name.startswith(name)), UNKNOWN_LASTS_S)
    return window.observed_at + lasts_s


def is_closed(window: Window, settings: Settings) -> bool:
    """Nothing more may be started on it, whatever its utilization."""
    if settings.allow_overage:
        return window.status == "rejected" and not window.overage
    return (window.status == "rejected" and not is_paid(window.name)) or window.overage


def share_of(window: Window, settings: Settings) -> float | None:
    """How full it is, as far as that limits anything."""
    if is_closed(window, settings):
        return max(1.0, window.utilization or 0.0)
    if settings.allow_overage or is_paid(window.name):
        return None
    return window.utilization


def fullest(state: RunState, now: float) -> tuple[float | None, str, float | None]:
    """Share, ``usage_window:<name>`` and end (epoch seconds) of the fullest that all share.

    A window whose reset has passed says nothing any more.
    """
    best: tuple[float | None, str, float | None] = (None, "", None)
    for window in state.windows.values():
        share = share_of(window, state.settings)
        if share is None or ends_at(window) <= now or model_in(window.name):
            continue
        if best[0] is None or (share, ends_at(window)) > (best[0], best[2] or 0.0):
            best = (share, bar_name(window), ends_at(window))
    return best


def bar_of_model(state: RunState, model: str, now: float) -> Bar | None:
    """What keeps stages with this model from starting, and no others."""
    full = 1.0 - state.settings.headroom_share
    bars = [
        Bar(bar_name(window), wake_at=ends_at(window))
        for window in state.windows.values()
        if is_of(window, model)
        and ends_at(window) > now
        and (share_of(window, state.settings) or 0.0) >= full
    ]
    return max(bars, key=lambda bar: bar.wake_at or 0.0, default=None)


def is_of(window: Window, model: str) -> bool:
    """Whether it is a window of this model's own."""
    name = model_in(window.name)
    return name != "" and name in model.lower()


def bar_name(window: Window) -> str:
    return f"usage_window:{window.name}"
