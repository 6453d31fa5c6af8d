"""What the host has left for children: memory, disk, cores, and a share with other drivers.

A figure that is not known limits nothing.  For want of memory or of cores one child may always
run: it would otherwise wait for what only its own end could free.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from orchestrator.core.model import ProcessIdentity, Record
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState

MB = 1_000_000
NAMES = frozenset({"memory", "disk", "load", "host_children"})
"""What ``limited_by`` says for a host's resource.  Nobody tells when there is more of it."""
LOOK_AGAIN_S = 2.0
"""How soon it is looked at again while a stage waits for it."""
MEMORY_SHARE = 0.9
"""A child is expected to need what this share of the past ones did not exceed."""


class Resources(Record, frozen=True, kw_only=True):
    """As they were at one look."""

    memory_available_bytes: int | None = None
    disk_free_bytes: int | None = None
    """The least, of where the run directory and the worktrees are."""
    load_per_core: float | None = None
    """Of the last minute."""
    host_children_free: int | None = None
    """Children that all drivers of this host may still start, this one's that have a place and
    are not started yet among them."""
    children_bytes: tuple[int, ...] = ()
    """Resident then, of each child of this run with all that it had started."""
    child_bytes: int = 0
    """What another one is expected to need, by what was learned; 0: what the setting says."""
    out: int | None = None
    """Dispatches that were out then; None: as many as are out now."""
    problem: str = ""
    """Why children are not counted on this host, although they should be."""


class Look(Protocol):
    """``resources`` of the Host port."""

    def __call__(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources: ...


def look(at_host: Look, state: RunState) -> Resources:
    """What the host has left, with what is known of this run's children."""
    leases = [lease for lease in state.in_flight.values() if not lease.is_interactive]
    seen = at_host(
        children=[tuple(filter(None, (lease.shim, lease.child))) for lease in leases],
        children_max=state.settings.host_children_max,
    )
    learned = state.history.memory_bytes(MEMORY_SHARE) or 0
    return msgspec.structs.replace(seen, out=len(state.in_flight), child_bytes=learned)


def limit_on(host: Resources, state: RunState) -> tuple[int, str]:
    """How many children may be out in all, and what says so.  What is out is never ended."""
    settings = state.settings
    out = len(state.in_flight) if host.out is None else host.out
    by_hand = sum(lease.is_interactive for lease in state.in_flight.values())
    one = max(out, by_hand + 1)
    limits: list[tuple[int, str]] = []
    if host.memory_available_bytes is not None and settings.memory_free_min_mb:
        more = _more_by_memory(host, state, out - by_hand)
        limits.append((max(out + more, one), "memory"))
    if host.disk_free_bytes is not None and host.disk_free_bytes < settings.disk_free_min_mb * MB:
        limits.append((out, "disk"))
    loaded = host.load_per_core is not None and settings.load_per_core_max
    if loaded and (host.load_per_core or 0.0) > settings.load_per_core_max:
        limits.append((one, "load"))
    if host.host_children_free is not None:
        limits.append((out + host.host_children_free, "host_children"))
    return min(limits, default=(_NO_LIMIT, ""))


def why(name: str, settings: Settings) -> str:
    """For a person, without a figure that changes with every look."""
    match name:
        case "memory":
            return (
                f"too little memory for another child beside the {settings.memory_free_min_mb:g} "
                f"MB that are left free (memory_free_min_mb)"
            )
        case "disk":
            return (
                f"less than {settings.disk_free_min_mb:g} MB are free where the run or its "
                f"worktrees are (disk_free_min_mb)"
            )
        case "load":
            return f"more than {settings.load_per_core_max:g} per core (load_per_core_max)"
        case _:
            return (
                f"the {settings.host_children_max} children that all drivers of this host may "
                f"have are out (host_children_max)"
            )


def _more_by_memory(host: Resources, state: RunState, out: int) -> int:
    """Beside those that are out, which may not have taken yet what they will need."""
    need = host.child_bytes or int(state.settings.child_memory_mb * MB)
    unseen = max(0, out - len(host.children_bytes))
    to_be_taken = unseen * need + sum(max(0, need - taken) for taken in host.children_bytes)
    left_free = int(state.settings.memory_free_min_mb * MB)
    spare = (host.memory_available_bytes or 0) - to_be_taken - left_free
    return max(0, spare // need)


_NO_LIMIT = 1_000_000
