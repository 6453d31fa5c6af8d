"""When an attempt goes on that has died: at once the first time, then later and later."""

import zlib

from orchestrator.core.state import RunState, TaskState

DELAY_S_MAX = 900.0
DELAY_DOUBLED_MAX = 16


def again_at(state: RunState, task: TaskState, now: float) -> float | None:
    """Epoch seconds; None: at once.  Spread, so that those that died together start apart."""
    if not task.crashes:
        return None
    delay_s = state.settings.crash_delay_s * 2.0 ** min(task.crashes - 1, DELAY_DOUBLED_MAX)
    spread = (zlib.crc32(task.slug.encode()) % 1000) / 1000.0
    return now + min(delay_s, DELAY_S_MAX) * (1.0 + spread)
