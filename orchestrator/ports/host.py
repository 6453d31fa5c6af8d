"""This machine, as the driver sees it: wall clock, identity, and what it has left."""

from collections.abc import Sequence
from typing import Protocol

from orchestrator.core.model import HostIdentity, ProcessIdentity
from orchestrator.core.resources import Resources


class Host(Protocol):
    def now(self) -> float:
        """Wall-clock time, epoch seconds.  Durations come from trio.current_time()."""
        ...

    def identity(self) -> HostIdentity: ...

    def this_process(self) -> ProcessIdentity: ...

    def resources(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources:
        """One look, some milliseconds long; never fails: what cannot be known is None.

        ``children``: of each dispatch that is out, its shim and its child.  ``children_max``: how
        many all drivers of this host may have; 0: not counted.
        """
        ...
