"""An account's usage windows: how full they are, and how many children that leaves.

Up to ``window_easy_share`` of a window the full limit holds; from there it falls in a
straight line to one child where the human's headroom begins, and within that nothing
starts until the reset.
"""

from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState


def limit_at(share: float, max_concurrent: int, settings: Settings) -> int:
    """``share``: used of the window, 0 to 1."""
    full = 1.0 - settings.headroom_share
    easy = min(settings.window_easy_share, full)
    if share >= full:
        return 0
    if share <= easy:
        return max_concurrent
    return max(1, round(max_concurrent * (full - share) / (full - easy)))


def fullest(state: RunState, now: float) -> tuple[float | None, str, float | None]:
    """Share, ``usage_window:<name>`` and reset (epoch seconds) of the fullest window.

    A window whose reset has passed says nothing any more.
    """
    best: tuple[float | None, str, float | None] = (None, "", None)
    for window in state.windows.values():
        share, resets_at = window.utilization, window.resets_at
        if share is None or (resets_at is not None and resets_at <= now):
            continue
        if best[0] is None or share > best[0]:
            best = (share, f"usage_window:{window.name}", resets_at)
    return best
