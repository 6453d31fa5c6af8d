"""What memory a child takes with all that it starts, and whether it was killed for want of it.

All children of a driver are looked at together, in one pass over the kernel's table.  What was
seen by an earlier driver is lost with it; the shim's own record still says what the largest process
took.

Invariant: a child counts as killed for want of memory only where somebody sent it SIGKILL, it was
not us, and the machine says that memory ran out.
"""

import math
import signal

import msgspec
import trio

from adapters.host import memory
from adapters.host.usage import Tree, usage_of
from orchestrator.core.model import Cause, ChildExit, Ending

LOOK_S = 5.0
"""Between two looks.  All children are looked at in the same instants."""


class Appetites:
    """Of all children that one driver follows."""

    def __init__(self) -> None:
        self._trees: dict[Appetite, Tree] = {}
        self._looked_at = -math.inf

    def follow(self, one: "Appetite", tree: Tree) -> None:
        self._trees[one] = tree

    def leave(self, one: "Appetite") -> None:
        self._trees.pop(one, None)

    def look(self) -> None:
        """At all of them, once in an instant."""
        if trio.current_time() < self._looked_at + LOOK_S / 2:
            return
        self._looked_at = trio.current_time()
        for one, usage in zip(self._trees, usage_of(self._trees.values()), strict=True):
            one.peak_bytes = max(one.peak_bytes, usage.resident_bytes)


class Appetite:
    """Of one child."""

    def __init__(self, all_of_them: Appetites) -> None:
        self.peak_bytes = 0
        self._all = all_of_them
        self._oom_kills = memory.oom_kills()

    def started(self, tree: Tree) -> None:
        self._all.follow(self, tree)

    async def watch(self) -> None:
        """Until cancelled."""
        try:
            while True:
                now = trio.current_time()
                await trio.sleep_until((now // LOOK_S + 1) * LOOK_S)
                self._all.look()
        finally:
            self._all.leave(self)

    def of(self, exit_: ChildExit) -> ChildExit:
        """The exit with the highest that is known."""
        peak = max(self.peak_bytes, exit_.peak_memory_bytes)
        return msgspec.structs.replace(exit_, peak_memory_bytes=peak)

    def judged(self, ending: Ending, exit_: ChildExit) -> Ending:
        """A crash is another thing where memory ran out."""
        was_killed = exit_.signal == signal.SIGKILL and exit_.reason == "exited"
        if ending.cause is not Cause.CRASH or not was_killed:
            return ending
        if memory.oom_kills() == self._oom_kills and not memory.is_under_pressure():
            return ending
        had = f"; it had {self.peak_bytes / 1e6:.0f} MB at most" if self.peak_bytes else ""
        error = f"killed for want of memory{had}"
        return msgspec.structs.replace(ending, cause=Cause.OUT_OF_MEMORY, error=error)
