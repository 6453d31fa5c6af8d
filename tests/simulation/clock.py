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
"""Trio itself looks a few times, with nothing due, before it ends."""


class Deadlock(Exception):
    """Nothing is due any more, and somebody waits."""


class VirtualClock(trio.abc.Clock):
    """Trio asks how long to sleep only when no task can run: that is when time jumps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fault: BaseException | None = None
        """The first that something on the machine raised; it ends the run."""
        self.scope = trio.CancelScope()
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
            try:
                act()
            except Exception as fault:  # noqa: BLE001 - trio must not see it here
                self._end_with(fault)
        if runnable or not math.isinf(deadline):
            self.now = self.now if runnable else max(self.now, deadline)
            self._idle = 0
            return 0.0
        self._idle += 1
        if self._idle == IDLE_LOOKS_MAX:
            self._end_with(Deadlock("nothing is due any more, and somebody waits"))
        elif self._idle > 2 * IDLE_LOOKS_MAX:
            raise Deadlock("nothing is due any more, and somebody waits, shielded")
        return 0.0

    def _end_with(self, fault: BaseException) -> None:
        self.fault = self.fault or fault
        self.scope.cancel()


def run_virtually(main: Callable[[], Awaitable[None]], clock: VirtualClock, seed: int) -> None:
    """trio.run() with a schedule that follows from the seed.

    The collector rests meanwhile: it would run at other places each time, and takes a tenth.
    """

    async def run() -> None:
        with clock.scope:
            await main()
        if clock.fault is not None:
            raise clock.fault

    was_deterministic = _run._ALLOW_DETERMINISTIC_SCHEDULING
    before = _run._r.getstate()
    was_collecting = gc.isenabled()
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    _run._r.seed(seed)
    gc.disable()
    try:
        trio.run(run, clock=clock)
    finally:
        _run._ALLOW_DETERMINISTIC_SCHEDULING = was_deterministic  # type: ignore[misc]
        _run._r.setstate(before)
        if was_collecting:
            gc.enable()
