"""This machine, as the driver sees it: wall clock and identity."""

from typing import Protocol

from orchestrator.core.model import HostIdentity, ProcessIdentity


class Host(Protocol):
    def now(self) -> float:
        """Wall-clock time, epoch seconds.  Durations come from trio.current_time()."""
        ...

    def identity(self) -> HostIdentity: ...

    def this_process(self) -> ProcessIdentity: ...
