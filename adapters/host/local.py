"""This machine: wall clock and identity.

Invariant: two hosts with equal identities see the same pids.
"""

import os
import socket
import time
from functools import cached_property

from adapters.host import processes
from orchestrator.core.model import HostIdentity, ProcessIdentity

MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class LocalHost:
    """The Host port, for real."""

    def now(self) -> float:
        return time.time()

    def identity(self) -> HostIdentity:
        return self._identity

    def this_process(self) -> ProcessIdentity:
        pid = os.getpid()
        return ProcessIdentity(pid=pid, start_time=processes.start_time_of(pid) or 0)

    @cached_property
    def _identity(self) -> HostIdentity:
        return HostIdentity(
            hostname=socket.gethostname(),
            machine_id=_machine_id(),
            boot_id=processes.boot_id(),
            pid_namespace=processes.pid_namespace(),
        )


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
