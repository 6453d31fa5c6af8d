"""Which tasks have a process of ours at work, for a command that must not touch those.

Invariant: a dispatch that was not looked at counts as one that runs: the driver may have made
it since the look.
"""

from collections.abc import Callable

from orchestrator.core.model import TaskId
from orchestrator.core.recover import is_same_host
from orchestrator.core.state import RunState
from orchestrator.journal.live import LiveRun
from orchestrator.ports.execution import Executor, SeenAlive
from orchestrator.ports.host import Host

AtWork = Callable[[RunState], frozenset[TaskId]]
"""Of the state that a command decides on, which may be newer than the look."""


async def look(run: LiveRun, executor: Executor, host: Host) -> AtWork:
    """On another host, work may go on that cannot be seen from here."""
    here = host.identity()
    gone = set()
    for lease in list(run.state.in_flight.values()):
        is_ours = not lease.is_interactive and is_same_host(lease.host, here)
        if is_ours and not isinstance(await executor.find(lease), SeenAlive):
            gone.add(lease.work_item_id)

    def at_work(state: RunState) -> frozenset[TaskId]:
        return frozenset(
            lease.task_id
            for lease in state.in_flight.values()
            if not lease.is_interactive and lease.work_item_id not in gone
        )

    return at_work
