"""When an attempt goes on that has died, or met trouble around it: later and later.

What is broken for a moment, a file that is just being written or a machine that is short, must
not use up in an instant all that an attempt is granted.
"""

import zlib

from orchestrator.core.state import RunState, TaskState

DELAY_S_MAX = 900.0
DELAY_DOUBLED_MAX = 16


def again_at(state: RunState, task: TaskState, now: float) -> float | None:
    """Epoch seconds; None: at once, after the first death."""
    if not task.crashes:
        return None
    return _later(state, task, now, 2.0 ** min(task.crashes - 1, DELAY_DOUBLED_MAX))


def repaired_at(state: RunState, task: TaskState, now: float) -> float:
    """Epoch seconds: when a stage is tried again that could not run."""
    return _later(state, task, now, 4.0 ** min(task.infrastructure_retries, DELAY_DOUBLED_MAX))


def _later(state: RunState, task: TaskState, now: float, times: float) -> float:
    """Spread, so that those that died together start apart."""
    delay_s = state.settings.crash_delay_s * times
    spread = (zlib.crc32(task.slug.encode()) % 1000) / 1000.0
    return now + min(delay_s, DELAY_S_MAX) * (1.0 + spread)
