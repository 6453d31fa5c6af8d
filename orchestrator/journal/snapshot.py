"""The state of a run kept beside its journal, so that looking at it is quick.

Invariant: a snapshot is only an abbreviation.  It is used where the journal is still the one
that it was made of, the code that folds it is the code that wrote it, and its own bytes are
those that were written; otherwise the whole journal is folded, as if it were not there.  Who
only looks compares the end of what it stands for; who goes on from it compares every byte.
"""

import functools
import gc
import os
import zlib
from pathlib import Path

import msgspec

from orchestrator import core
from orchestrator.core.fold import fold, undisturbed
from orchestrator.core.model import Record
from orchestrator.core.state import RunState
from orchestrator.given_file import read_file
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from orchestrator.journal.read import following
from orchestrator.journal.scan import Position, no_event, require_run
from orchestrator.journal.store import RunStore

EVENTS_BETWEEN = 1000
"""At least, and no fewer than there are tasks: so that what they cost per event is constant."""

_CHECKSUM_BYTES = 4
"""Of the file, at its end: CRC-32 of all that comes before.  It is not synced, and most of what a
disk may have made of it is a state, too."""


class Harmed(Exception):
    """A snapshot's bytes are not those that were written."""


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
        beside = self._path.with_name(f".{self._path.name}.new-{os.getpid()}")
        try:
            beside.write_bytes(encode(state, position))
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def read_state(store: RunStore) -> RunState:
    """The state now, by way of the snapshot where there is a good one.  Writes nothing.

    For a command that looks and ends: the cycle collector is kept from walking the state ever.
    """
    with following(store.events_path) as follower, undisturbed():
        snapshot = whole_snapshot(store)
        is_good = snapshot is not None and follower.go_to(snapshot.position)
        state = snapshot.state if snapshot is not None and is_good else None
        while entries := follower.next_batch().entries:
            for entry in entries:
                state = fold(state, entry)
        gc.freeze()
    if state is None:
        raise no_event(str(store.events_path))
    require_run(str(store.events_path), state.run_id, store.run_id)
    return state


async def open_run(journal: FileJournal, store: RunStore) -> LiveRun:
    """The run, to go on with it: nothing was read of ``journal`` yet."""
    snapshot = whole_snapshot(store)
    if snapshot is None or not journal.go_on_from(snapshot.position):
        return await LiveRun.open(journal)
    require_run(str(store.events_path), snapshot.state.run_id, store.run_id)
    return await LiveRun.open(journal, snapshot.state)


def whole_snapshot(store: RunStore) -> Snapshot | None:
    """None where there is none, or none that this code has written.  Of which journal it is the
    abbreviation, is not known yet."""
    try:
        snapshot = decode(read_file(store.snapshot_path))
    except (OSError, Harmed, msgspec.MsgspecError):
        return None
    if snapshot.form != _form() or snapshot.position.seq != snapshot.state.seq:
        return None
    return snapshot


def encode(state: RunState, position: Position) -> bytes:
    return sealed(msgspec.msgpack.encode(Snapshot(form=_form(), position=position, state=state)))


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(_CHECKSUM_BYTES)


def unsealed(data: bytes) -> memoryview:
    """Raises Harmed."""
    body = memoryview(data)[:-_CHECKSUM_BYTES]
    if zlib.crc32(body).to_bytes(_CHECKSUM_BYTES) != data[-_CHECKSUM_BYTES:]:
        raise Harmed
    return body


def decode(data: bytes) -> Snapshot:
    """Raises Harmed; msgspec.MsgspecError where other code has written it."""
    with undisturbed():
        snapshot = msgspec.msgpack.decode(unsealed(data), type=Snapshot)
    state = snapshot.state
    for lease in state.in_flight.values():
        state.tasks[lease.task_id].lease = lease  # one object, which later events change
    return snapshot


@functools.cache
def _form() -> int:
    """Of the code that makes a state of events: changes with any of it."""
    checksum = 0
    for path in sorted(Path(core.__file__).parent.glob("*.py")):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum
