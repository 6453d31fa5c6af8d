"""Decide, after a restart, what becomes of each open dispatch, before anything new starts.

Taking a dispatch up again spends no attempt, whatever is found of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.errors import Blocked
from orchestrator.core.events import ChildAdopted, DispatchReclaimed, KnownEvent
from orchestrator.core.model import HostIdentity, TaskId
from orchestrator.core.remedy import command
from orchestrator.core.state import Lease, RunState


@dataclass(frozen=True, slots=True)
class SeenAlive:
    """The shim lives (its lock is held), or only its child does."""

    shim_lost: bool = False


@dataclass(frozen=True, slots=True)
class SeenEnded:
    """There is an exit record or a result to harvest."""


@dataclass(frozen=True, slots=True)
class SeenDead:
    """It was started, and is gone in the middle."""

    reason: str


@dataclass(frozen=True, slots=True)
class SeenNothing:
    """It was never started: the driver died between the intent and the spawn."""


Seen = SeenAlive | SeenEnded | SeenDead | SeenNothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    events: tuple[KnownEvent, ...]
    attach: tuple[TaskId, ...]
    """Leases to follow to their end: adopted, harvested, or cut off in the middle."""


def leases_to_look_at(state: RunState, host: HostIdentity) -> tuple[Lease, ...]:
    """The open leases that are this host's to recover, oldest first."""
    return tuple(
        lease
        for lease in state.in_flight.values()
        if not lease.is_interactive and is_same_host(lease.host, host)
    )


def is_same_host(one: HostIdentity, other: HostIdentity) -> bool:
    """The boot id may differ: after a reboot every pid is void, but the files are here.

    Containers made of one image may share a machine id and not a name; a laptop changes its
    name with the network, and keeps its boot.
    """
    if one.machine_id != other.machine_id:
        return False
    same_boot = (one.boot_id, one.pid_namespace) == (other.boot_id, other.pid_namespace)
    return one.hostname == other.hostname or same_boot


def recover(
    state: RunState,
    seen: Mapping[TaskId, Seen],
    host: HostIdentity,
    *,
    take_over: bool = False,
) -> Recovery:
    """Raises Blocked where a lease belongs to another host and nobody said to take it over."""
    events: list[KnownEvent] = []
    attach: list[TaskId] = []
    for lease in state.in_flight.values():
        if lease.is_interactive:
            continue
        if not is_same_host(lease.host, host):
            if not take_over:
                raise Blocked(
                    f"blocked_on_orphaned_dispatches: {lease.work_item_id} was started on host "
                    f"{lease.host.hostname}; make sure that nothing of it runs there, then: "
                    + command(state.run_id, "run-headless", "--take-over")
                )
            events.append(_reclaimed(lease, "redispatched", f"taken from {lease.host.hostname}"))
            continue
        match seen.get(lease.task_id):
            case None:
                continue
            case SeenAlive(shim_lost=lost):
                events.append(_reclaimed(lease, "adopted", "its shim is gone" if lost else ""))
                adopted = ChildAdopted(task_id=lease.task_id, work_item_id=lease.work_item_id)
                events.append(adopted)
                attach.append(lease.task_id)
            case SeenEnded():
                events.append(_reclaimed(lease, "harvested"))
                attach.append(lease.task_id)
            case SeenDead(reason=reason):
                events.append(_reclaimed(lease, "resumed", reason))
                attach.append(lease.task_id)
            case SeenNothing():
                events.append(_reclaimed(lease, "redispatched", "it was never started"))
    return Recovery(events=tuple(events), attach=tuple(attach))


def _reclaimed(lease: Lease, how: str, reason: str = "") -> DispatchReclaimed:
    return DispatchReclaimed(
        task_id=lease.task_id, work_item_id=lease.work_item_id, how=how, reason=reason
    )
