"""What people changed of a run while it was there: who, when, what it was, what it is, why.

Invariant: a row for each value; what was taken back stays, and says by which change.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from orchestrator.core.model import TaskId
from orchestrator.core.state import Change, RunState
from orchestrator.core.undo import taken_back_by
from orchestrator.core.words import plain
from orchestrator.views.moments import clock


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    """Of its event in the journal."""
    at: float
    """Epoch seconds."""
    by: str
    task_id: TaskId | None
    """Null: of the run's settings."""
    key: str
    """Empty where a change was taken back that left everything as it was."""
    was: Any
    now: Any
    reason: str
    undoes: tuple[int, ...]
    """The changes that this one takes back, by their seq."""
    undone_by: int | None
    """The change that took this one back."""


def history(state: RunState) -> list[ChangeRow]:
    """The last changes that are kept, oldest first."""
    undone = taken_back_by(state)
    return [
        ChangeRow(
            seq=change.seq,
            at=change.at,
            by=change.by,
            task_id=change.task_id,
            key=key,
            was=change.was.get(key),
            now=change.now.get(key),
            reason=change.reason,
            undoes=change.undoes,
            undone_by=undone.get(change.seq),
        )
        for change in state.changes
        for key in _keys(change)
    ]


def changes_text(rows: Sequence[ChangeRow]) -> str:
    return "\n".join(_line(row) for row in rows) or "nothing was changed since the run was made"


def _keys(change: Change) -> Sequence[str]:
    return list(change.now) or [""]


def _line(row: ChangeRow) -> str:
    what = f"{row.task_id + ' ' if row.task_id else ''}{row.key}"
    was_is = f"{what}: {plain(row.was)} -> {plain(row.now)}" if row.key else "all as it was"
    why = f" ({row.reason})" if row.reason else ""
    undoes = f"; takes back {', '.join(map(str, row.undoes))}" if row.undoes else ""
    undone = f"; taken back by {row.undone_by}" if row.undone_by else ""
    line = f"{row.seq:>5}  {clock(row.at)}  {row.by or '-'}  {was_is}{why}{undoes}{undone}"
    return "".join(c if c.isprintable() else " " for c in line)
