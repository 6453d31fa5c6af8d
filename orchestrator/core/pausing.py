"""Pause parts of a run, single tasks or whole lanes, and let them go on.

Nothing new of them starts, what runs goes on.  Invariant: what waits for a paused task waits
on; it is never blocked by it.
"""

from collections.abc import Iterable, Sequence

import msgspec

from orchestrator.core.events import KnownEvent, SettingsChanged, TaskChanged
from orchestrator.core.model import TaskId
from orchestrator.core.options import lanes_of
from orchestrator.core.state import RunState
from orchestrator.core.steer import change_settings, change_task, find_task, require_open


def paused_tasks(state: RunState) -> list[TaskId]:
    """Those that have not ended, in the order in which they were added.  Costs what there is."""
    return [
        task.id
        for task in state.tasks.values()
        if task.paused is not None and not task.status.is_terminal
    ]


def pause_parts(
    state: RunState, tasks: Iterable[str], lanes: Sequence[str], *, reason: str, by: str
) -> list[KnownEvent]:
    """All of them or none; what is paused already stays as it is."""
    require_open(state)
    paused = [*state.settings.paused_lanes, *lanes_of(lanes)]
    return _changed(state, tasks, paused, "true", reason=reason, by=by)


def unpause_parts(
    state: RunState, tasks: Iterable[str], lanes: Sequence[str], *, reason: str, by: str
) -> list[KnownEvent]:
    require_open(state)
    left = [lane for lane in state.settings.paused_lanes if lane not in lanes_of(lanes)]
    return _changed(state, tasks, left, "false", reason=reason, by=by)


def _changed(
    state: RunState,
    tasks: Iterable[str],
    lanes: Sequence[str],
    paused: str,
    *,
    reason: str,
    by: str,
) -> list[KnownEvent]:
    pairs = {"paused_lanes": ",".join(lanes) or "none"}
    events = change_settings(state, pairs, by=by, reason=reason)
    for task_id in dict.fromkeys(find_task(state, name).id for name in tasks):
        events += change_task(state, task_id, {"paused": paused}, by=by, reason=reason)
    return as_one_command(state, events)


def as_one_command(state: RunState, events: Sequence[KnownEvent]) -> list[KnownEvent]:
    """To be taken back together.  They are committed on ``state``, or made anew."""
    if len(events) < 2:
        return list(events)
    return [
        msgspec.structs.replace(event, command=state.seq + 1)
        if isinstance(event, SettingsChanged | TaskChanged)
        else event
        for event in events
    ]
