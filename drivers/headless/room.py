"""How many children this driver may have out: by its invocation, the account and the host.

The host is looked at seldom, however often a plan is made: a look is some milliseconds, and a plan
is made for every result.  What a look says holds for KEPT_S, unless a child's end may have changed
it.

Invariant: a place on the host that was refused is not asked for again before KEPT_S have passed.
"""

import math
from collections.abc import Callable, Collection

import msgspec
import trio

from drivers.headless.outside import Invocation
from orchestrator.core import resources
from orchestrator.core.capacity import Capacity, capacity
from orchestrator.core.model import TaskId
from orchestrator.core.plan import Plan
from orchestrator.core.resources import Resources
from orchestrator.core.state import RunState
from orchestrator.ports.host import Host

KEPT_S = 1.5
PATIENCE_S = 10.0
"""How long a driver that does not wait puts up with a host that has nothing left."""


class Room:
    def __init__(self, host: Host, invocation: Invocation, say: Callable[..., None]) -> None:
        self._host = host
        self._invocation = invocation
        self._say = say
        self._seen = Resources()
        self._until = -math.inf
        self._limited_by = ""
        self._short_since: float | None = None
        self._problem = ""

    def capacity(self, state: RunState, now: float) -> Capacity:
        found = capacity(
            state,
            now,
            max_concurrent=self._invocation.max_concurrent or state.settings.max_concurrent,
            utilization=self._invocation.utilization,
            host=self._host_now(state),
        )
        self._limited_by = found.in_all.limited_by
        if not self._is_short:
            self._short_since = None
        return found

    def child_ended(self) -> None:
        """It may have freed what others wait for."""
        if self._is_short:
            self._until = -math.inf

    def place_refused(self, state: RunState, preparing: Collection[TaskId]) -> None:
        """Until the next look, a while from now, no more are out than are out or ``preparing``."""
        free = min(self._seen.host_children_free or 0, len(preparing))
        out = len(state.in_flight)
        self._seen = msgspec.structs.replace(self._seen, host_children_free=free, out=out)
        self._until = trio.current_time() + KEPT_S

    def is_passing(self, due: Plan) -> bool:
        """Whether nothing is out because of the host, and that has only just begun."""
        if due.limited_by not in resources.NAMES:
            return False
        if self._short_since is None:
            self._short_since = trio.current_time()
            self._say("waiting for the host", limited_by=due.limited_by)
        return trio.current_time() - self._short_since < PATIENCE_S

    @property
    def _is_short(self) -> bool:
        return self._limited_by in resources.NAMES

    def _host_now(self, state: RunState) -> Resources:
        if trio.current_time() < self._until:
            return self._seen
        self._seen = resources.look(self._host.resources, state)
        self._until = trio.current_time() + KEPT_S
        if self._seen.problem and not self._problem:
            self._problem = self._seen.problem
            self._say("children of other drivers are not counted", why=self._problem)
        return self._seen
