"""How many children may be out at once: the tightest of what the account and the host allow.

The account's windows limit the children with a model; the host limits all of them.
"""

from dataclasses import dataclass, replace

from orchestrator.core import resources, windows
from orchestrator.core.resources import Resources
from orchestrator.core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    limit: int
    """Of children with a model."""
    limited_by: str = "max_concurrent"
    """What the limit comes from: ``max_concurrent``, ``util``, ``usage_window:five_hour``,
    ``memory``, ``disk``, ``load``, ``host_children``."""
    wake_at: float | None = None
    """Epoch seconds: when a full window resets, or the host is looked at again."""
    utilization: float | None = None
    """Of the fullest window, 0 to 1; None where no window is known."""
    of_the_host: "Capacity | None" = None
    """Of children of every kind; None: the same."""

    @property
    def in_all(self) -> "Capacity":
        return self.of_the_host or self


def capacity(
    state: RunState,
    now: float,
    *,
    max_concurrent: int,
    utilization: float | None = None,
    host: Resources | None = None,
) -> Capacity:
    """``utilization`` 0 to 1 overrides what the windows say (``--util PCT``), but no rejection."""
    in_all = _of_the_host(state, now, max_concurrent, host)
    share, name, resets_at = windows.fullest(state, now)
    if utilization is not None and (share is None or share < 1.0):
        share, name, resets_at = utilization, "util", None
    if share is None:
        return in_all
    limit = windows.limit_at(share, max_concurrent, state.settings)
    if limit >= in_all.limit:
        return replace(in_all, utilization=share)
    return Capacity(
        limit=limit, limited_by=name, wake_at=resets_at, utilization=share, of_the_host=in_all
    )


def _of_the_host(
    state: RunState, now: float, max_concurrent: int, host: Resources | None
) -> Capacity:
    best = Capacity(limit=max_concurrent)
    if state.memory_limit_until > now and state.memory_limit < best.limit:
        until = state.memory_limit_until
        best = Capacity(limit=state.memory_limit, limited_by="memory", wake_at=until)
    if host is not None:
        limit, name = resources.limit_on(host, state)
        if limit < best.limit:
            again_at = now + resources.LOOK_AGAIN_S
            best = Capacity(limit=limit, limited_by=name, wake_at=again_at)
    return best
