"""What the run loop is doing, in the words of a heartbeat."""

from drivers.headless.heartbeat import DriverState, Pulse
from orchestrator.core.capacity import Capacity
from orchestrator.core.model import TaskStatus
from orchestrator.core.plan import Plan
from orchestrator.core.state import RunState


def pulse_of(state: RunState, due: Plan, capacity: Capacity, *, is_preparing: bool) -> Pulse:
    return Pulse(
        state=_doing(state, due, capacity, is_preparing=is_preparing),
        dispatch_limit=capacity.limit,
        limited_by=due.limited_by,
        dispatchable=state.counts.get(TaskStatus.READY, 0),
        in_flight=tuple(state.in_flight),
        util=capacity.utilization,
        reason=state.cooldown_reason if due.limited_by == "cooldown" else None,
        wait_until=due.wake_at if not state.in_flight else None,
    )


def _doing(state: RunState, due: Plan, capacity: Capacity, *, is_preparing: bool) -> DriverState:
    if is_preparing:
        return DriverState.DISPATCHING
    if state.in_flight:
        return DriverState.WAITING_ON_CHILDREN
    if capacity.limit == 0:
        return DriverState.WAITING_ON_CAPACITY
    if due.wake_at is not None:
        return DriverState.WAITING_ON_COOLDOWN
    return DriverState.DISPATCHING
