"""This machine: wall clock, identity, and what it has left for children.

Invariant: two hosts with equal identities see the same pids.
"""

import os
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from adapters.host import processes
from adapters.host.slots import Slots
from adapters.host.usage import usage_of
from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.resources import Resources

T = TypeVar("T")

MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class LocalHost:
    """The Host port, for real."""

    def __init__(self, *, places: Sequence[Path] = (), slots: Slots | None = None) -> None:
        """``places``: where disk is needed; they need not be there yet."""
        self._places = places
        self._slots = slots

    def now(self) -> float:
        return time.time()

    def identity(self) -> HostIdentity:
        return self._identity

    def this_process(self) -> ProcessIdentity:
        pid = os.getpid()
        return ProcessIdentity(pid=pid, start_time=processes.start_time_of(pid) or 0)

    def resources(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources:
        from adapters.host import memory  # psutil is 25 ms, and only drivers look

        slots = self._slots
        used = _known(lambda: [usage.resident_bytes for usage in usage_of(children)])
        free = [_known(partial(_disk_free, place)) for place in self._places]
        return Resources(
            memory_available_bytes=_known(memory.available_bytes),
            disk_free_bytes=min((room for room in free if room is not None), default=None),
            load_per_core=_known(lambda: os.getloadavg()[0] / (os.cpu_count() or 1)),
            host_children_free=_known(partial(slots.free, children_max)) if slots else None,
            children_bytes=tuple(used or ()),
            problem=slots.problem if slots else "",
        )

    @cached_property
    def _identity(self) -> HostIdentity:
        return HostIdentity(
            hostname=socket.gethostname(),
            machine_id=_machine_id(),
            boot_id=processes.boot_id(),
            pid_namespace=processes.pid_namespace(),
        )


def _disk_free(place: Path) -> int:
    """Where the place is, or would be made."""
    there = next(path for path in (place, *place.parents) if path.is_dir())
    return shutil.disk_usage(there).free


def _known(look: Callable[[], T]) -> T | None:
    """None where the system does not say, or has no descriptor left to say it through."""
    try:
        return look()
    except OSError:
        return None


def _machine_id() -> str:
    """Stable over restarts.  Some containers have none: then their host name, which they keep."""
    for path in MACHINE_ID_FILES:
        try:
            with open(path, encoding="ascii") as file:
                if text := file.read().strip():
                    return text
        except (OSError, UnicodeDecodeError):
            continue
    return processes.machine_uuid() or socket.gethostname()
