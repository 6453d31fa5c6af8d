"""The demo's live view: one line per task while the run goes on.

On a terminal the lines are redrawn in place; elsewhere what has changed is printed, line by
line.  Nothing here is wider than the terminal, and nothing in it can drive it.
"""

import os
import shutil
from collections.abc import Sequence
from typing import Protocol, TextIO

from orchestrator.core.events import (
    Entry,
    RetryScheduled,
    StageDispatched,
    StageRecorded,
    TaskAdded,
)
from orchestrator.core.model import Stage, TaskStatus
from orchestrator.core.state import RunState, TaskState
from orchestrator.views.moments import duration
from orchestrator.views.text import cut
from orchestrator.views.timeline import activity, activity_line

_TOO_MUCH = (StageDispatched, TaskAdded)
"""Events that are no news to somebody who sees every stage end."""
_COLORS = {"done": "32", "now": "1;36", "bad": "1;31", "todo": "2", "": ""}


class View(Protocol):
    def show(self, state: RunState, news: Sequence[Entry], now: float) -> None: ...

    def close(self, state: RunState, now: float) -> None: ...


def view_on(stream: TextIO, *, unit: str) -> View:
    """``unit``: what the money is called."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return Lines(stream)
    return Table(stream, unit=unit, colors="NO_COLOR" not in os.environ)


class Lines:
    """For a log: every stage's end, every retry."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, state: RunState, news: Sequence[Entry], now: float) -> None:
        for entry in news:
            row = None if isinstance(entry.event, _TOO_MUCH) else activity(entry)
            if row is not None and row.task_id is not None:
                print(activity_line(row), file=self._stream, flush=True)

    def close(self, state: RunState, now: float) -> None:
        """Everything has been said."""


class Table:
    def __init__(self, stream: TextIO, *, unit: str, colors: bool) -> None:
        self._stream = stream
        self._unit = unit
        self._colors = colors
        self._marks = _marks(stream)
        self._drawn = 0
        self._remark = ""

    def show(self, state: RunState, news: Sequence[Entry], now: float) -> None:
        for entry in news:
            self._remark = remark(entry) or self._remark
        self._draw(state, now)

    def close(self, state: RunState, now: float) -> None:
        self._draw(state, now)
        self._drawn = 0

    def _draw(self, state: RunState, now: float) -> None:
        width = shutil.get_terminal_size((100, 24)).columns - 1
        names = max(len(name) for name in state.tasks)
        lines = [self._row(task, names, width, now) for task in state.tasks.values()]
        at_work = len(state.in_flight)
        spent = f"{state.totals.cost_usd:.2f} {self._unit}"
        lines.append(cut(f"{duration(now - state.created_at)}, {at_work} at work, {spent}", width))
        lines.append(cut(self._remark, width))
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._stream.write(up + "".join(f"{line}\x1b[K\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _row(self, task: TaskState, names: int, width: int, now: float) -> str:
        parts = [("", f"{cut(task.id, 30):<{min(names, 30)}} ")]
        chips = chips_of(task, now)
        tail = _tail(task)
        whole = sum(len(text) + 3 for _, text in chips) + len(parts[0][1]) + len(tail) + 2
        for kind, text in chips:
            shown = text if whole <= width or kind in ("now", "bad") else ""
            parts.append((kind, f" {self._marks[kind]}{shown and ' '}{shown}"))
        parts.append(("bad" if task.status in _ENDED_BADLY else "", f"  {tail}"))
        left, row = width, ""
        for kind, text in parts:
            fitting = cut(text, left) if left > 0 else ""
            left -= len(fitting)
            color = _COLORS[kind] if self._colors else ""
            row += f"\x1b[{color}m{fitting}\x1b[0m" if color else fitting
        return row


_ENDED_BADLY = (TaskStatus.FAILED, TaskStatus.CASCADE_BLOCKED, TaskStatus.HELD)


def chips_of(task: TaskState, now: float) -> list[tuple[str, str]]:
    """Each stage of the task's pipeline: done, now, bad or todo, and what to call it."""
    stages = task.pipeline.stages
    at = stages.index(task.stage)
    return [
        (_kind(task, number, at), _name(task, stage, now)) for number, stage in enumerate(stages)
    ]


def remark(entry: Entry) -> str:
    """What went otherwise than straight on, in a line."""
    match entry.event:
        case RetryScheduled() as event:
            return f"{event.task_id}: {event.stage} again, attempt {event.attempt}: {event.reason}"
        case StageRecorded(cause=None):
            return ""
        case StageRecorded() as event:
            return f"{event.task_id}: {event.stage} ended with {event.cause}: {event.error}"
        case _:
            return ""


def _kind(task: TaskState, number: int, at: int) -> str:
    if task.status is TaskStatus.COMPLETED or number < at:
        return "done"
    if number > at:
        return "todo"
    if task.status in _ENDED_BADLY:
        return "bad"
    return "now" if task.lease is not None else "todo"


def _name(task: TaskState, stage: Stage, now: float) -> str:
    attempt = task.attempts.get(stage, 1)
    name = f"{stage} #{attempt}" if attempt > 1 else str(stage)
    if task.lease is not None and task.lease.stage is stage:
        name += f" {max(0.0, now - task.lease.dispatched_at):.0f} s"
    return name


def _tail(task: TaskState) -> str:
    match task.status:
        case TaskStatus.WAITING:
            return f"after {', '.join(sorted(task.unmet))}"
        case TaskStatus.COMPLETED | TaskStatus.RUNNING | TaskStatus.READY:
            return f"{task.cost_usd:.2f}" if task.cost_usd else ""
        case status:
            return f"{status.replace('_', ' ')}: {task.reason}" if task.reason else str(status)


def _marks(stream: TextIO) -> dict[str, str]:
    marks = {"done": "✓", "now": "●", "bad": "✗", "todo": "·"}
    try:
        "".join(marks.values()).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return {"done": "+", "now": "*", "bad": "x", "todo": "."}
    return marks
