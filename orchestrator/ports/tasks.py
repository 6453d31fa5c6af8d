"""Where tasks come from: a file in the repository, an issue tracker."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from orchestrator.core.model import Record, TaskId


class SourceTask(Record, frozen=True, kw_only=True):
    """A task as its source describes it now."""

    id: TaskId
    title: str
    body: str = ""
    depends_on: tuple[TaskId, ...] = ()
    labels: tuple[str, ...] = ()
    budget_usd: float | None = None
    done: bool = False
    """The source says it needs no work: as a dependency it counts as completed."""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class TaskSource(Protocol):
    def fetch(self, ref: str) -> SourceTask:
        """One task.  Raises Refused where the source has none of this name."""
        ...

    def all(self) -> Sequence[SourceTask]:
        """Every task, in the source's order."""
        ...
