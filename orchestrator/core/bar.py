"""Why a ready task does not start now: a value that a plan passes over it with."""

from dataclasses import dataclass


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
