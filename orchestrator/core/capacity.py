"""How many children may be out at once, as a usage window fills.

Up to EASY_SHARE of a window the full limit holds; from there it falls in a straight
line to one child at FULL_SHARE, and above that nothing starts until the reset: the
rest is the human's headroom.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.model import Window
from orchestrator.core.state import RunState

EASY_SHARE = 0.7
FULL_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    limit: int
    limited_by: str = "max_concurrent"
    wake_at: float | None = None
    """Epoch seconds: when a full window resets."""
    utilization: float | None = None
    """Of the fullest window, 0 to 1; None where no window is known."""


def capacity(
    state: RunState, now: float, *, max_concurrent: int, utilization: float | None = None
) -> Capacity:
    """``utilization`` 0 to 1 overrides what the windows say (``--util PCT``)."""
    if utilization is not None:
        return _at(utilization, max_concurrent, "util", None)
    fullest = _fullest(state.windows.values(), now)
    if fullest is None or fullest.utilization is None:
        return Capacity(limit=max_concurrent)
    return _at(fullest.utilization, max_concurrent, fullest.name, fullest.resets_at)


def _at(share: float, max_concurrent: int, name: str, resets_at: float | None) -> Capacity:
    if share >= FULL_SHARE:
        limit = 0
    elif share <= EASY_SHARE:
        limit = max_concurrent
    else:
        left = (FULL_SHARE - share) / (FULL_SHARE - EASY_SHARE)
        limit = max(1, round(max_concurrent * left))
    lowered = limit < max_concurrent
    return Capacity(
        limit=limit,
        limited_by=f"usage_window:{name}" if lowered else "max_concurrent",
        wake_at=resets_at if lowered else None,
        utilization=share,
    )


def _fullest(windows: Iterable[Window], now: float) -> Window | None:
    """A window whose reset has passed says nothing any more."""
    known = [
        window
        for window in windows
        if window.utilization is not None and (window.resets_at is None or window.resets_at > now)
    ]
    return max(known, key=lambda window: window.utilization or 0.0, default=None)
