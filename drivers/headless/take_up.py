"""The first commit of a driver: its claim, and what becomes of each dispatch left open."""

from collections.abc import Awaitable, Callable, Sequence

from drivers.headless.outside import Invocation, Outside
from orchestrator.core.events import DriverClaimed, KnownEvent
from orchestrator.core.model import TaskId
from orchestrator.core.recover import Seen, leases_to_look_at, recover
from orchestrator.core.state import RunState
from orchestrator.journal.live import Decide


async def take_up(
    state: RunState,
    outside: Outside,
    invocation: Invocation,
    commit: Callable[[Decide], Awaitable[object]],
) -> list[TaskId]:
    """The tasks whose dispatches are to be followed to their end."""
    host = outside.host
    identity = host.identity()
    seen: dict[TaskId, Seen] = {}
    for lease in leases_to_look_at(state, identity):
        seen[lease.task_id] = await outside.executor.find(lease)
    claim = DriverClaimed(
        driver=f"{identity.hostname}:{host.this_process().pid}",
        process=host.this_process(),
        host=identity,
        argv=invocation.argv,
        took_over=invocation.take_over,
    )
    attach: list[TaskId] = []

    def taken_up(present: RunState) -> Sequence[KnownEvent]:
        recovery = recover(present, seen, identity, take_over=invocation.take_over)
        attach[:] = recovery.attach
        return (claim, *recovery.events)

    await commit(taken_up)
    return attach
