"""Virtual time, and a trio run that is the same each time.

Invariant: time moves only when nothing can run, and then to the next thing that is due, in
trio or on the machine; so one seed has one course.  Needs trio's private switch for
deterministic scheduling (trio 0.22 to 0.35 have it): test_replay.py fails where it is gone.
"""

import gc
import heapq
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.lowlevel
from trio._core import _run

T = TypeVar("T")

IDLE_LOOKS_MAX = 100


class VirtualClock(trio.abc.Clock):
    """Trio asks how long to sleep only when no task can run: that is when time jumps."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._idle = 0

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        """Let something happen on the machine, without a trio task of its own."""
        self._count += 1
        heapq.heappush(self._due, (self.now + delay_s, self._count, act))

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        runnable = _run.GLOBAL_RUN_CONTEXT.runner.runq
        while self._due and self._due[0][0] <= deadline and not runnable:
            self.now, _, act = heapq.heappop(self._due)
            act()
        if runnable or not math.isinf(deadline):
            self.now = self.now if runnable else max(self.now, deadline)
            self._idle = 0
            return 0.0
        self._idle += 1  # trio itself may have something for its next look
        if self._idle > IDLE_LOOKS_MAX:
            raise RuntimeError("nothing is due any more, and somebody waits: a deadlock")
        return 0.0


def run_virtually(main: Callable[[], Awaitable[T]], clock: VirtualClock, seed: int) -> T:
    """trio.run() with a schedule that follows from the seed."""
    was_deterministic = _run._ALLOW_DETERMINISTIC_SCHEDULING
    state = _run._r.getstate()
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(seed)
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return trio.run(main, clock=clock)
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic  # type: ignore[misc]
        _run._r.setstate(state)
        if was_collecting:
            gc.enable()
