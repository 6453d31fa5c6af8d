"""Moments and spans as a person reads them here: local time, short.

Invariant: every number has its words, also one that no calendar knows.
"""

import math
from datetime import datetime

NO_DATE = "no date"


def clock(at: float) -> str:
    """``2026-11-29 16:03:13``."""
    return _local(at, "%Y-%m-%d %H:%M:%S")


def moment(at: float) -> str:
    """``Sun 16:03``."""
    return _local(at, "%a %H:%M")


def told_at(at: float) -> str:
    """``16:03:13``."""
    return _local(at, "%H:%M:%S")


def duration(seconds: float) -> str:
    """``8 s``, ``3 min``, ``2 h 05``."""
    if not math.isfinite(seconds):
        return "no end"
    if -100 < seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if -100 < minutes < 100:
        return f"{minutes} min"
    if 0 < minutes < _DAYS_FROM_MIN:
        return f"{minutes // 60} h {minutes % 60:02d}"
    return f"{seconds / 86_400:.4g} days"


def _local(at: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(at).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return NO_DATE


_DAYS_FROM_MIN = 1000 * 60
