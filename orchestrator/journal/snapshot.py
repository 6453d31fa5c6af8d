"""The state of a run kept beside its journal, so that looking at it is quick.

Invariant: a snapshot is only an abbreviation.  It is used where the journal still holds,
at the snapshot's end, the bytes it was made at, and the code that reads it has the
form of the code that wrote it; otherwise the whole journal is folded, as if it were not there.
"""

import dataclasses
import gc
import os
import typing
import zlib
from pathlib import Path

import msgspec

from orchestrator.core.fold import fold, undisturbed
from orchestrator.core.model import Record
from orchestrator.core.state import RunState
from orchestrator.journal.read import following
from orchestrator.journal.scan import Follower, Position, no_event, require_run
from orchestrator.journal.store import RunStore

EVENTS_BETWEEN = 1000
"""At least, and no fewer than there are tasks: so that what they cost per event is constant."""


class Snapshot(Record, frozen=True, kw_only=True):
    form: int
    position: Position
    state: RunState


class Snapshots:
    """The driver's: writes one when enough has happened."""

    def __init__(self, store: RunStore, seq: int = 0) -> None:
        self._path = store.snapshot_path
        self._seq = seq

    def is_due(self, state: RunState) -> bool:
        return state.seq - self._seq >= max(EVENTS_BETWEEN, len(state.tasks))

    def write(self, state: RunState, position: Position) -> None:
        """``position``: where the journal ends that ``state`` is the fold of.  Raises OSError."""
        if position.seq != state.seq:
            return  # others have appended: next time
        self._seq = state.seq
        snapshot = Snapshot(form=_form(), position=position, state=state)
        beside = self._path.with_name(f".{self._path.name}.new-{os.getpid()}")
        try:
            beside.write_bytes(msgspec.msgpack.encode(snapshot))
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def read_state(store: RunStore) -> RunState:
    """The state now, by way of the snapshot where there is a good one.  Writes nothing.

    For a command that looks and ends: the cycle collector is kept from walking the state ever.
    """
    with following(store.events_path) as follower, undisturbed():
        state = _from_snapshot(store.snapshot_path, follower)
        while entries := follower.next_batch().entries:
            for entry in entries:
                state = fold(state, entry)
        gc.freeze()
    if state is None:
        raise no_event(str(store.events_path))
    require_run(str(store.events_path), state.run_id, store.run_id)
    return state


def _from_snapshot(path: Path, follower: Follower) -> RunState | None:
    try:
        snapshot = _decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if snapshot.form != _form() or snapshot.position.seq != snapshot.state.seq:
        return None
    state = snapshot.state
    for lease in state.in_flight.values():
        state.tasks[lease.task_id].lease = lease  # one object, which later events change
    return state if follower.go_to(snapshot.position) else None


def _decode(data: bytes) -> Snapshot:
    return msgspec.msgpack.decode(data, type=Snapshot)


def _form() -> int:
    """Of the state: changes with the names and types of its fields, and of theirs."""
    names: list[str] = []
    queue: list[object] = [RunState]
    seen: set[object] = set()
    while queue:
        kind = queue.pop()
        if kind in seen:
            continue
        seen.add(kind)
        queue += typing.get_args(kind)
        if isinstance(kind, type) and (
            dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
        ):
            hints = typing.get_type_hints(kind)
            names += [kind.__name__, *hints]
            queue += hints.values()
    return zlib.crc32(" ".join(sorted(names)).encode())
