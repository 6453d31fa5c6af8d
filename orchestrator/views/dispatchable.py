"""What ``dispatchable`` prints: what could start now, and how much at once."""

import msgspec

from orchestrator.core.model import TaskId


class Dispatchable(msgspec.Struct, frozen=True, kw_only=True):
    dispatchable: tuple[TaskId, ...]
    """Ready tasks that no dispatch is out for, best first."""
    limit: int
    """Children in all; what is in flight counts against it."""
    limited_by: str
    """What sets the limit."""
    in_flight: tuple[TaskId, ...]
    in_flight_count: int
