"""Fold what a person changes of the settings, or of one task, and remember what was before.

Invariant: settings by stage are merged stage by stage, so that two who change different
stages do not undo each other.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.core.events import Entry, SettingsChanged, TaskChanged
from orchestrator.core.graph import place_anew
from orchestrator.core.options import TASK_KEYS, described, flat, flattened, own_of
from orchestrator.core.settings import Settings
from orchestrator.core.state import Change, RunState
from orchestrator.core.transitions import require, task_of

CHANGES_KEPT_MAX = 1000
"""What can be taken back, and what the history shows."""


def settings_changed(state: RunState, event: SettingsChanged, entry: Entry) -> None:
    before = flat(state.settings)
    state.settings = _merged(state.settings, event.changes)
    _remember(state, event, entry, before, flattened(event.changes))


def task_changed(state: RunState, event: TaskChanged, entry: Entry) -> None:
    task = task_of(state, event.task_id)
    before = own_of(task)
    for name, value in event.changes.items():
        require(name in TASK_KEYS, f"{name} of a task is changed")
        setattr(task, name, 0 if name == "priority" and value is None else value)
    place_anew(state, task)
    _remember(state, event, entry, before, {name: own_of(task)[name] for name in event.changes})


def _merged(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    fields = described(settings)
    for name, value in changes.items():
        present = fields.get(name)
        if isinstance(present, dict) and isinstance(value, dict):
            both = {**present, **value}
            fields[name] = {key: each for key, each in both.items() if each is not None}
        else:
            fields[name] = value
    return msgspec.convert(msgspec.to_builtins(fields), Settings)


def _remember(
    state: RunState,
    event: SettingsChanged | TaskChanged,
    entry: Entry,
    before: Mapping[str, Any],
    now: dict[str, Any],
) -> None:
    state.changes.append(
        Change(
            seq=entry.seq,
            at=entry.ts,
            by=event.by,
            reason=event.reason,
            command=event.command or entry.seq,
            task_id=event.task_id if isinstance(event, TaskChanged) else None,
            was={name: before.get(name) for name in now},
            now=now,
            undoes=event.undoes,
        )
    )
    del state.changes[:-CHANGES_KEPT_MAX]
