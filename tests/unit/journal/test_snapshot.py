"""A snapshot gives the state that the whole journal gives, or is passed over."""

from pathlib import Path

import msgspec
import pytest

from orchestrator.core.errors import JournalDamaged
from orchestrator.core.events import ChildStarted, KnownEvent
from orchestrator.core.fold import fold, replay
from orchestrator.core.model import Outcome, ProcessIdentity, Stage, TaskId
from orchestrator.core.state import RunState
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.disk import open_journal
from orchestrator.journal.read import following, read_entries
from orchestrator.journal.snapshot import (
    EVENTS_BETWEEN,
    Snapshot,
    Snapshots,
    open_run,
    read_state,
    sealed,
    unsealed,
    whole_snapshot,
)
from orchestrator.journal.store import RunStore
from tests.unit.journal.events import NOW, added, created, dispatched, paused, recorded


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """A run with a task that is done, one that runs and one that waits; and a snapshot of it."""
    store = RunStore(tmp_path / "r1")
    store.path.mkdir()
    events: list[KnownEvent] = [created(), added("T1"), added("T2"), added("T3", depends_on=("X",))]
    for stage in Stage:
        last = Outcome.COMPLETED if stage is Stage.REVIEW else Outcome.ADVANCED
        events += [dispatched("T1", stage), recorded("T1", stage, outcome=last)]
    events += [dispatched("T2", Stage.INTAKE)]
    append(store, events, after_seq=0)
    state = None
    with following(store.events_path) as follower:
        for entry in follower.next_batch().entries:
            state = fold(state, entry)
        assert state is not None
        Snapshots(store).write(state, follower.position)
    return store


def append(store: RunStore, events: list[KnownEvent], *, after_seq: int) -> None:
    with store.events_path.open("ab") as file:
        file.write(encode_commit(events, after_seq=after_seq, run_id="r1", now=NOW)[0])


TOLD = "from the snapshot"


def make_it_tell(store: RunStore) -> None:
    """So that a state which comes from the snapshot can be told."""
    body = unsealed(store.snapshot_path.read_bytes())
    snapshot = msgspec.msgpack.decode(body, type=Snapshot)
    snapshot.state.driver = TOLD
    store.snapshot_path.write_bytes(sealed(msgspec.msgpack.encode(snapshot)))


def is_used(store: RunStore) -> bool:
    make_it_tell(store)
    return read_state(store).driver == TOLD


async def opened(store: RunStore) -> RunState:
    """As a driver has it, and whoever commits."""
    return (await open_run(open_journal(store.events_path, store.run_id), store)).state


def test_it_gives_the_state_of_the_whole_journal(store: RunStore) -> None:
    assert read_state(store) == replay(read_entries(store.events_path))
    append(store, [paused()], after_seq=17)
    state = read_state(store)
    assert state == replay(read_entries(store.events_path))
    assert state.paused is not None
    assert is_used(store)


async def test_who_goes_on_from_it_has_the_state_of_the_whole_journal(store: RunStore) -> None:
    append(store, [paused()], after_seq=17)
    assert await opened(store) == replay(read_entries(store.events_path))
    make_it_tell(store)
    state = await opened(store)
    assert (state.driver, state.paused is None) == (TOLD, False)


async def test_who_goes_on_sees_damage_anywhere(store: RunStore) -> None:
    """Who only looks is spared reading all of it, and sees what is at its end."""
    text = store.events_path.read_bytes()
    for harmed in (text.replace(b"T3", b"T4", 1), text.replace(b'"seq":3,', b'"seq":4,', 1)):
        store.events_path.write_bytes(harmed)
        assert is_used(store)
        if b'"seq":3,' in harmed:
            assert await opened(store) == replay(read_entries(store.events_path))
        else:
            with pytest.raises(JournalDamaged, match="line 3 has number 4"):
                await opened(store)
    store.events_path.write_bytes(text)
    make_it_tell(store)
    assert (await opened(store)).driver == TOLD


def test_what_follows_it_changes_a_lease_wherever_it_is_looked_at(store: RunStore) -> None:
    lease = read_state(store).in_flight[TaskId("T2")]
    started = ChildStarted(
        task_id=lease.task_id,
        work_item_id=lease.work_item_id,
        shim=ProcessIdentity(pid=7, start_time=8),
    )
    append(store, [started], after_seq=17)
    state = read_state(store)
    assert state.in_flight[lease.task_id].shim == started.shim
    assert state == replay(read_entries(store.events_path))
    assert is_used(store)


def test_it_is_passed_over_where_the_journal_is_another(store: RunStore) -> None:
    text = store.events_path.read_bytes()
    store.events_path.write_bytes(
        text.replace(b"/repo/.worktrees/r1/T2", b"/repo/.worktrees/r2/T2")
    )
    assert not is_used(store)
    store.events_path.write_bytes(encode_commit([created()], after_seq=0, run_id="r1", now=NOW)[0])
    assert not is_used(store)
    assert read_state(store).seq == 1


def test_it_is_passed_over_where_it_is_torn_or_of_another_form(store: RunStore) -> None:
    whole = store.snapshot_path.read_bytes()
    expected = replay(read_entries(store.events_path))
    for harmed in (whole[:-1], b"", b"\0" * len(whole)):
        store.snapshot_path.write_bytes(harmed)
        assert read_state(store) == expected
    snapshot = msgspec.msgpack.decode(unsealed(whole), type=Snapshot)
    other = msgspec.structs.replace(snapshot, form=snapshot.form ^ 1)
    store.snapshot_path.write_bytes(sealed(msgspec.msgpack.encode(other)))
    assert not is_used(store)


async def test_it_is_passed_over_where_any_of_its_bytes_is_another(store: RunStore) -> None:
    """Most of what is no longer what was written is still a state: of tasks that ended or not,
    of money that was spent or not."""
    whole = store.snapshot_path.read_bytes()
    expected = replay(read_entries(store.events_path))
    for at in range(0, len(whole), 7):
        harmed = bytearray(whole)
        harmed[at] ^= 1
        store.snapshot_path.write_bytes(harmed)
        assert whole_snapshot(store) is None
    assert read_state(store) == await opened(store) == expected


@pytest.mark.parametrize("has_snapshot", [True, False])
async def test_a_directory_under_another_name_is_refused(
    store: RunStore, has_snapshot: bool
) -> None:
    if not has_snapshot:
        store.snapshot_path.unlink()
    copy = RunStore(store.path.rename(store.path.with_name("copy")))
    with pytest.raises(JournalDamaged, match=r"of run r1, not of copy: .*--run r1"):
        read_state(copy)
    with pytest.raises(JournalDamaged, match="of run r1, not of copy"):
        await opened(copy)


def test_it_is_due_now_and_then(store: RunStore) -> None:
    state = read_state(store)
    snapshots = Snapshots(store, seq=state.seq)
    assert not snapshots.is_due(state)
    state.seq += EVENTS_BETWEEN
    assert snapshots.is_due(state)


def test_a_state_that_others_have_overtaken_is_not_kept(store: RunStore) -> None:
    before = store.snapshot_path.read_bytes()
    state = read_state(store)
    append(store, [paused()], after_seq=17)
    with following(store.events_path) as follower:
        follower.next_batch()
        Snapshots(store).write(state, follower.position)
    assert store.snapshot_path.read_bytes() == before


def test_an_empty_journal_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    with pytest.raises(JournalDamaged, match="no event is recorded whole"):
        read_state(RunStore(tmp_path))
