"""How many children may be out at once: the tightest of what the account and the host allow."""

from dataclasses import dataclass

from orchestrator.core import resources, windows
from orchestrator.core.resources import Resources
from orchestrator.core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    limit: int
    limited_by: str = "max_concurrent"
    """What the limit comes from: ``max_concurrent``, ``util``, ``usage_window:five_hour``,
    ``memory``, ``disk``, ``load``, ``host_children``."""
    wake_at: float | None = None
    """Epoch seconds: when a full window resets."""
    utilization: float | None = None
    """Of the fullest window, 0 to 1; None where no window is known."""


def capacity(
    state: RunState,
    now: float,
    *,
    max_concurrent: int,
    utilization: float | None = None,
    host: Resources | None = None,
) -> Capacity:
    """``utilization`` 0 to 1 overrides what the windows say (``--util PCT``)."""
    share, name, resets_at = windows.fullest(state, now)
    if utilization is not None:
        share, name, resets_at = utilization, "util", None
    best = Capacity(limit=max_concurrent, utilization=share)
    if share is not None:
        limit = windows.limit_at(share, max_concurrent, state.settings)
        if limit < max_concurrent:
            best = Capacity(limit=limit, limited_by=name, wake_at=resets_at, utilization=share)
    if host is not None:
        limit, name = resources.limit_on(host, state)
        if limit < best.limit:
            best = Capacity(limit=limit, limited_by=name, utilization=share)
    return best
