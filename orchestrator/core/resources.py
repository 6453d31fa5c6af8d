"""What the host has left for children: memory, disk, cores, and a share with other drivers.

A figure that is not known limits nothing.
"""

from orchestrator.core.model import Record
from orchestrator.core.state import RunState

MB = 1_000_000


class Resources(Record, frozen=True, kw_only=True):
    memory_available_bytes: int | None = None
    disk_free_bytes: int | None = None
    """The least, of where the run directory and the worktrees are."""
    load_per_core: float | None = None
    """Of the last minute."""
    host_children_free: int | None = None
    """Children that all drivers of this host may still start."""


def limit_on(host: Resources, state: RunState) -> tuple[int, str]:
    """How many children may be out in all, and what says so.  What is out is never ended."""
    settings, out = state.settings, len(state.in_flight)
    limits: list[tuple[int, str]] = []
    if host.memory_available_bytes is not None and settings.memory_free_min_mb:
        spare = host.memory_available_bytes - settings.memory_free_min_mb * MB
        more = max(0, int(spare / (settings.child_memory_mb * MB)))
        limits.append((out + more, "memory"))
    if host.disk_free_bytes is not None and host.disk_free_bytes < settings.disk_free_min_mb * MB:
        limits.append((out, "disk"))
    loaded = host.load_per_core is not None and settings.load_per_core_max
    if loaded and (host.load_per_core or 0.0) > settings.load_per_core_max:
        limits.append((out, "load"))
    if host.host_children_free is not None:
        limits.append((out + host.host_children_free, "host_children"))
    return min(limits, default=(_NO_LIMIT, ""))


_NO_LIMIT = 1_000_000
