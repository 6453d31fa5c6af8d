"""Wait out a machine that has no process or thread to spare: mostly it has one in a moment.

Invariant: only what may be done again is done again, and it ends: what lasts is raised.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from orchestrator.core.errors import is_starved

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, *(30.0,) * 6)
"""Three and a half minutes in all."""

T = TypeVar("T")


async def patiently(
    act: Callable[[], Awaitable[T]], waits: Callable[[Exception, float], object]
) -> T:
    """``waits`` is told why, and for how many seconds."""
    for pause_s in PAUSES_S:
        try:
            return await act()
        except Exception as problem:
            if not is_starved(problem):
                raise
            waits(problem, pause_s)
        await trio.sleep(pause_s)
    return await act()
