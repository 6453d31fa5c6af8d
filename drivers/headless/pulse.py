"""What the run loop is doing, in the words of a heartbeat."""

from drivers.headless.heartbeat import DriverState, Pulse
from drivers.headless.stalled import paused_in_part
from orchestrator.core import resources
from orchestrator.core.bar import is_about_pausing
from orchestrator.core.capacity import Capacity
from orchestrator.core.model import TaskStatus
from orchestrator.core.plan import Plan
from orchestrator.core.state import RunState
from orchestrator.views.driver_log import BY_HAND

ONE_GOES_FIRST = "one stage goes first after the pause; the others when it has succeeded"


def pulse_of(state: RunState, due: Plan, capacity: Capacity, *, is_preparing: bool) -> Pulse:
    is_hosts = due.limited_by in resources.NAMES  # nobody knows until when it is short
    return Pulse(
        state=_doing(state, due, capacity, is_preparing=is_preparing),
        dispatch_limit=capacity.limit,
        limited_by=due.limited_by,
        dispatchable=state.counts.get(TaskStatus.READY, 0),
        in_flight=tuple(state.in_flight),
        util=capacity.utilization,
        reason=_reason(state, due, is_preparing=is_preparing),
        wait_until=due.wake_at if not (state.in_flight or is_hosts) else None,
    )


def by_hand(state: RunState) -> str:
    """The tasks that people's hands have, where nothing else is out; "" otherwise."""
    leases = state.in_flight.values()
    if not leases or not all(lease.is_interactive for lease in leases):
        return ""
    return ", ".join(state.in_flight)


def _reason(state: RunState, due: Plan, *, is_preparing: bool) -> str | None:
    if due.limited_by == "cooldown":
        return state.cooldown_reason
    if due.limited_by == "canary" and state.canary == "model":
        return ONE_GOES_FIRST
    if due.limited_by == "canary" and not state.in_flight:
        return "another driver of the account asks whether its limit is over"
    if due.limited_by in resources.NAMES and not state.in_flight:
        return resources.why(due.limited_by, state.settings)
    if is_about_pausing(due.stalled) and not is_preparing:
        return paused_in_part(state, due.stalled)
    names = "" if is_preparing else by_hand(state)
    if names:
        return f"{BY_HAND}{names}"
    return state.paused if due.limited_by == "paused" else None


def _doing(state: RunState, due: Plan, capacity: Capacity, *, is_preparing: bool) -> DriverState:
    if is_preparing:
        return DriverState.DISPATCHING
    if state.in_flight:
        return DriverState.WAITING_ON_CHILDREN
    if due.limited_by == "cooldown":  # the window that was rejected is full, too
        return DriverState.WAITING_ON_COOLDOWN
    if capacity.limit == 0 or is_about_pausing(due.stalled):
        return DriverState.WAITING_ON_CAPACITY
    if due.wake_at is not None:
        return DriverState.WAITING_ON_COOLDOWN
    return DriverState.DISPATCHING
