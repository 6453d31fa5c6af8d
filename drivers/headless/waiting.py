"""What a driver that has nothing out waits for, told to a person once.

Invariant: what has been told otherwise is not told again: a cooldown is an event, and Room tells
of the host.
"""

from collections.abc import Callable

from drivers.headless.pulse import by_hand
from orchestrator.core import resources
from orchestrator.core.plan import Plan
from orchestrator.core.state import RunState
from orchestrator.views.moments import clock

TOLD_S_MIN = 5.0
"""A shorter wait is over before it is read."""
_TOLD_OTHERWISE = frozenset({"cooldown", "canary", *resources.NAMES})


class Waiting:
    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._by_hand = ""
        self._for_time: tuple[str, str] | None = None

    def tell(self, state: RunState, due: Plan, now: float) -> None:
        names = by_hand(state)
        if names and names != self._by_hand:
            self._say("waiting for results of work by hand", tasks=names)
        self._by_hand = names
        until, what = due.wake_at, due.limited_by
        if until is None or until - now < TOLD_S_MIN or what in _TOLD_OTHERWISE:
            return
        if (what, clock(until)) != self._for_time:
            self._for_time = (what, clock(until))
            what = "tasks that are tried again then" if what == "tasks" else what
            self._say("waiting", until=clock(until), seconds=round(until - now), limited_by=what)
