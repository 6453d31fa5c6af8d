"""Why a ready task does not start now: a value that a plan passes over it with."""

from dataclasses import dataclass

PAUSED_TASKS = "paused_tasks"
"""What limits where nothing is left but tasks that a person has paused."""
LANE = "lane:"
"""How it begins where that is a paused lane."""


def is_about_pausing(limited_by: str) -> bool:
    """Until a person lets a task or a lane go on; the run itself is not paused."""
    return limited_by == PAUSED_TASKS or limited_by.startswith(LANE)


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a ready task does not start now."""

    limited_by: str
    """``budget``, ``task_budget:<task>``, ``usage_window:seven_day_opus``, ``lane:<lane>`` …"""
    is_for_all: bool = False
    """Nothing that is worse placed can start either."""
    is_lasting: bool = False
    """Of this task alone, until a person lifts it: it counts not among those looked past."""
    wake_at: float | None = None
    """Epoch seconds: when time alone lifts it."""
