"""Where the time of a run went, task by task: a fold of the journal, beside the state's own.

Invariant: the times of a task sum to what lies between its being added and its end.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orchestrator.core.events import (
    Entry,
    RunFinalized,
    StageDispatched,
    StageRecorded,
    TaskRequeued,
)
from orchestrator.core.fold import fold, undisturbed
from orchestrator.core.model import Cause, Outcome, Stage, TaskId, TaskStatus
from orchestrator.core.state import RunState


@dataclass(slots=True)
class TaskTimes:
    status: TaskStatus
    since: float
    """Epoch seconds: of ``status``."""
    spent_s: defaultdict[TaskStatus, float] = field(default_factory=lambda: defaultdict(float))
    first_ready_at: float | None = None
    ended_at: float | None = None

    def turn(self, status: TaskStatus, at: float) -> None:
        if status is not self.status:
            self.spent_s[self.status] += at - self.since
            self.status, self.since = status, at
        if status is TaskStatus.READY and self.first_ready_at is None:
            self.first_ready_at = at
        self.ended_at = at if status.is_terminal else None


@dataclass(slots=True)
class TimeBooks:
    state: RunState | None = None
    tasks: dict[TaskId, TaskTimes] = field(default_factory=dict)
    stages: defaultdict[Stage, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds that each recorded dispatch took."""
    causes: Counter[Cause] = field(default_factory=Counter)
    began_at: float | None = None
    """The first dispatch."""
    ended_at: float | None = None
    idle_s: float = 0.0
    """Since the run began: nothing ran, and not every task had ended."""
    idle_since: float | None = None

    def take(self, entry: Entry) -> None:
        self.state = state = fold(self.state, entry)
        event, at = entry.event, entry.ts
        if isinstance(event, StageDispatched):
            self.began_at = at if self.began_at is None else self.began_at
        elif isinstance(event, StageRecorded):
            took_s = event.exit.duration_s or max(0.0, event.ended_at - event.started_at)
            self.stages[event.stage].append(took_s)
            if event.cause is not None:
                self.causes[event.cause] += 1
        self.ended_at = at if isinstance(event, RunFinalized) else self.ended_at
        if state.finalized is None:
            self.ended_at = None
        for task_id in _touched(state, entry):
            self._turn(state, task_id, at)
        self._idle(state, at)

    def _turn(self, state: RunState, task_id: TaskId, at: float) -> None:
        task = state.tasks.get(task_id)
        if task is None:
            return
        times = self.tasks.get(task_id)
        if times is None:
            times = self.tasks[task_id] = TaskTimes(TaskStatus.WAITING, at)
        times.turn(task.status, at)

    def _idle(self, state: RunState, at: float) -> None:
        is_idle = self.began_at is not None and not state.in_flight and not state.is_settled
        if is_idle and self.idle_since is None:
            self.idle_since = at
        elif not is_idle and self.idle_since is not None:
            self.idle_s += at - self.idle_since
            self.idle_since = None

    def close(self, now: float) -> None:
        """Count what goes on until ``now``."""
        for times in self.tasks.values():
            if not times.status.is_terminal:
                times.spent_s[times.status] += max(0.0, now - times.since)
        if self.idle_since is not None:
            self.idle_s += max(0.0, now - self.idle_since)


def times_of(entries: Iterable[Entry], now: float) -> TimeBooks:
    books = TimeBooks()
    with undisturbed():
        for entry in entries:
            books.take(entry)
    books.close(now)
    return books


def _touched(state: RunState, entry: Entry) -> Iterator[TaskId]:
    """The tasks whose status an event may have changed."""
    task_id = getattr(entry.event, "task_id", None)
    if task_id is None:
        return
    yield task_id
    if isinstance(entry.event, TaskRequeued):
        yield from state.tasks
    elif isinstance(entry.event, StageRecorded) and entry.event.outcome is Outcome.COMPLETED:
        yield from state.dependents.get(task_id, ())
