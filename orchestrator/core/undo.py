"""Take back what a person has changed of a run: a new event gives back what was before.

Invariant: a value that has changed again is never overwritten; who changed it is named.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.errors import Refused
from orchestrator.core.events import KnownEvent, SettingsChanged, TaskChanged
from orchestrator.core.model import TaskId
from orchestrator.core.options import flat, nested, own_of
from orchestrator.core.pausing import as_one_command
from orchestrator.core.state import Change, RunState
from orchestrator.core.words import plain

Values = dict[str, Any]


def undo(state: RunState, commands: int, *, by: str, reason: str = "") -> list[KnownEvent]:
    """Of the last ``commands`` of this person that changed settings or tasks, all or nothing."""
    taken_back = _last(state, commands, by)
    values: dict[TaskId | None, Values] = {}
    for change in taken_back:
        place = change.task_id
        present = values.setdefault(place, _present(state, place))
        for key, now in change.now.items():
            if present.get(key) != now:
                raise Refused(_changed_again(state, change, key, present.get(key)))
            present[key] = change.was[key]
    events: list[KnownEvent] = []
    for place, wanted in reversed(values.items()):
        present = _present(state, place)
        changes = {key: each for key, each in wanted.items() if each != present.get(key)}
        undoes = tuple(change.seq for change in reversed(taken_back) if change.task_id == place)
        if place is None:
            event: KnownEvent = SettingsChanged(
                changes=nested(changes), by=by, reason=reason, undoes=undoes
            )
        else:
            event = TaskChanged(task_id=place, changes=changes, by=by, reason=reason, undoes=undoes)
        events.append(event)
    return as_one_command(state, events)


def taken_back_by(state: RunState) -> Mapping[int, int]:
    """The seq of a change -> of the one that took it back."""
    return {seq: change.seq for change in state.changes for seq in change.undoes}


def _last(state: RunState, commands: int, by: str) -> list[Change]:
    """Newest first."""
    undone = taken_back_by(state)
    found: dict[int, list[Change]] = {}
    is_there_more = False
    for change in reversed(state.changes):
        if change.undoes or change.seq in undone:
            continue
        if change.by != by:
            is_there_more = True
        elif change.command in found or len(found) < commands:
            found.setdefault(change.command, []).append(change)
    if len(found) < commands:
        who = by or "you"
        others = "; `set --history` shows what others changed" if is_there_more else ""
        if not found:
            raise Refused(f"nothing that {who} changed is there to take back{others}")
        times = "1 change" if len(found) == 1 else f"{len(found)} changes"
        raise Refused(f"only {times} by {who} can be taken back, not {commands}{others}")
    return [change for changes in found.values() for change in changes]


def _present(state: RunState, place: TaskId | None) -> Values:
    return flat(state.settings) if place is None else own_of(state.tasks[place])


def _changed_again(state: RunState, change: Change, key: str, present: Any) -> str:
    later = [
        each
        for each in state.changes
        if each.seq > change.seq and each.task_id == change.task_id and key in each.now
    ]
    of = f" of {change.task_id}" if change.task_id else ""
    who = later[-1].by or "somebody" if later else "something else"
    return (
        f"{key}{of} was changed again since, by {who}: it is {plain(present)}, and was to be taken"
        f" back from {plain(change.now[key])} to {plain(change.was[key])}; `set` says what it is"
        " to be"
    )
