"""How much of a usage window a dollar takes, learned from this run's own calls.

Between the first and the latest look at one period of a window, what was recorded is
set against how much fuller it became.  What others use meanwhile counts in: then a
stage seems to take more than it does, and waits rather than eats into the headroom.
"""

from orchestrator.core.choice import model_of
from orchestrator.core.model import Stage, Window
from orchestrator.core.state import RunState, TaskState, WindowRate
from orchestrator.core.windows import ends_at, is_of, is_paid, model_in

SAME_PERIOD_S = 60.0
"""Two resets no further apart are the same one."""
USD_MIN = 0.5
SHARE_MIN = 0.02
"""Less than this, of either, says nothing about the other."""


def observe(state: RunState, window: Window) -> None:
    """Called by the fold with each look at a window."""
    share, spent = window.utilization, state.totals.cost_usd
    if share is None:
        return
    rate = state.window_rates.get(window.name)
    is_same = rate is not None and abs(rate.ends_at - ends_at(window)) <= SAME_PERIOD_S
    if rate is None or not is_same or share < rate.first_share:
        state.window_rates[window.name] = WindowRate(
            ends_at=ends_at(window),
            first_share=share,
            first_usd=spent,
            share=share,
            usd=spent,
        )
    else:
        rate.share, rate.usd = share, spent


def share_per_usd(rate: WindowRate | None) -> float | None:
    """None: not known."""
    if rate is None:
        return None
    share, usd = rate.share - rate.first_share, rate.usd - rate.first_usd
    return share / usd if share >= SHARE_MIN and usd >= USD_MIN else None


def expected_usd(state: RunState, stage: Stage, model: str) -> float:
    """The median of what such a stage has cost; 0 where that is not known."""
    return 0.0 if stage.is_deterministic else state.history.cost_usd(stage, model, 0.5) or 0.0


def does_not_fit(
    state: RunState, task: TaskState, now: float, *, promised_usd: float
) -> Window | None:
    """The window that the task's stage would fill into the human's headroom, before its reset.

    ``promised_usd``: expected of what is out and was granted already.  Unknown means that it fits.
    """
    if not state.window_rates or state.settings.allow_overage:
        return None
    model = model_of(state, task, task.stage)
    usd = expected_usd(state, task.stage, model)
    full = 1.0 - state.settings.headroom_share
    for window in state.windows.values():
        is_meant = not is_paid(window.name) and (
            is_of(window, model) if model_in(window.name) else True
        )
        per_usd = share_per_usd(state.window_rates.get(window.name))
        if not is_meant or per_usd is None or window.utilization is None or not usd:
            continue
        taken = window.utilization + (promised_usd + usd) * per_usd
        if taken > full and ends_at(window) > now:
            return window
    return None
