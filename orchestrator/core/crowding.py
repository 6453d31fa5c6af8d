"""What follows where a child was killed for want of memory: fewer of them for a while.

Beside as many as were out with it, it would be killed again.  So the run's limit falls to one
less than were out, and the same attempt is tried again after a growing delay.
"""

from orchestrator.core.events import MemoryRanOut
from orchestrator.core.state import RunState, TaskState

CALM_S = 900.0
"""How long fewer children are out."""
DELAY_S = 30.0
"""Before it is tried again; doubled with each of its deaths in one attempt."""
DELAY_S_MAX = 1800.0
DELAY_DOUBLED_MAX = 16


def fewer(state: RunState, task: TaskState, reason: str, now: float) -> MemoryRanOut:
    limit = len(state.in_flight) - 1
    if state.memory_limit_until > now:
        limit = min(limit, state.memory_limit - 1)
    return MemoryRanOut(task_id=task.id, limit=max(1, limit), until=now + CALM_S, reason=reason)


def again_at(task: TaskState, now: float) -> float:
    """Epoch seconds."""
    return now + min(DELAY_S * 2.0 ** min(task.crashes, DELAY_DOUBLED_MAX), DELAY_S_MAX)
