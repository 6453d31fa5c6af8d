"""What the journal does when the disk under it does not."""

import errno
import threading
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from orchestrator.core.errors import EnvironmentFault, InvariantBroken, JournalDamaged
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.disk import DiskThread, FileDisk, open_journal
from orchestrator.journal.file import FileJournal
from orchestrator.journal.read import read_entries
from orchestrator.ports.journal import Committed
from tests.fakes.disk import MemoryDisk, MemoryFile
from tests.unit.journal.events import NOW, begun, paused


async def begin(disk: MemoryDisk) -> FileJournal:
    journal = FileJournal(disk, "r1")
    assert isinstance(await journal.commit(0, begun(), now=NOW), Committed)
    return journal


@pytest.mark.parametrize("room", [0, 1, 50])
async def test_a_full_disk_leaves_the_file_as_it_was_and_the_next_commit_may_fit(
    room: int,
) -> None:
    disk = MemoryDisk()
    journal = await begin(disk)
    before = bytes(disk.file.data)
    disk.file.room = room
    with pytest.raises(EnvironmentFault, match=r"events.jsonl: .*space.*run the same command"):
        await journal.commit(2, [paused()], now=NOW)
    assert bytes(disk.file.data) == before
    disk.file.room = None
    assert isinstance(await journal.commit(2, [paused()], now=NOW), Committed)


async def test_after_a_failed_sync_the_journal_refuses() -> None:
    disk = MemoryDisk()
    journal = await begin(disk)
    before = bytes(disk.file.data)
    disk.fail_sync = errno.EIO
    with pytest.raises(EnvironmentFault, match="failed to sync"):
        await journal.commit(2, [paused()], now=NOW)
    assert bytes(disk.file.data) == before
    disk.fail_sync = None
    syncs = disk.syncs
    with pytest.raises(EnvironmentFault, match="failed to sync"):
        await journal.commit(2, [paused()], now=NOW)
    assert disk.syncs == syncs


async def test_one_commit_is_one_sync() -> None:
    disk = MemoryDisk()
    journal = await begin(disk)
    syncs = disk.syncs
    await journal.commit(2, [paused(str(n)) for n in range(50)], now=NOW)
    assert disk.syncs == syncs + 1


async def test_where_locks_are_not_supported_it_says_what_to_do() -> None:
    disk = MemoryDisk()
    disk.fail_lock = errno.ENOLCK
    with pytest.raises(EnvironmentFault, match="flock; set ORCHESTRATOR_RUNS_ROOT"):
        await begin(disk)


async def test_a_lock_that_is_never_given_up_is_waited_for_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    file = MemoryFile()
    assert await MemoryDisk(file).lock(0)
    with pytest.raises(EnvironmentFault, match=r"another process has held its lock for 10 s"):
        await begin(MemoryDisk(file))
    assert autojump_clock.current_time() == pytest.approx(10.0, abs=0.1)


async def test_a_torn_tail_under_a_writers_lock_is_left_alone() -> None:
    disk = MemoryDisk()
    await begin(disk)
    disk.file.data += b'{"v":1,"seq":3'
    assert await MemoryDisk(disk.file).lock(0)
    reader = FileJournal(MemoryDisk(disk.file), "r1")
    assert len(await reader.read_new()) == 2
    assert list(await reader.read_new()) == []
    assert disk.file.data.endswith(b'"seq":3')


async def test_a_gap_in_the_numbers_is_refused() -> None:
    disk = MemoryDisk()
    await begin(disk)
    disk.file.data += encode_commit([paused()], after_seq=5, run_id="r1", now=NOW)[0]
    with pytest.raises(JournalDamaged, match=r"line 3 has number 6 where 3 belongs"):
        await FileJournal(disk, "r1").read_new()


async def test_what_was_read_and_is_gone_stops_its_reader() -> None:
    """A reader may see a commit whose sync then fails: it must not decide on it."""
    disk = MemoryDisk()
    await begin(disk)
    size = len(disk.file.data)
    ghost, _ = encode_commit([paused("ghost")], after_seq=2, run_id="r1", now=NOW)
    disk.file.data += ghost
    reader = FileJournal(MemoryDisk(disk.file), "r1")
    assert len(await reader.read_new()) == 3
    del disk.file.data[size:]
    with pytest.raises(JournalDamaged, match="is not there any more"):
        await reader.commit(3, [paused()], now=NOW)
    disk.file.data += ghost.replace(b"ghost", b"other")
    with pytest.raises(JournalDamaged, match="is not there any more"):
        await reader.commit(3, [paused()], now=NOW)


async def test_a_newer_format_is_refused_with_its_number() -> None:
    disk = MemoryDisk()
    await begin(disk)
    newer, _ = encode_commit([paused()], after_seq=2, run_id="r1", now=NOW)
    disk.file.data += newer.replace(b'"v":1', b'"v":7')
    with pytest.raises(EnvironmentFault, match=r"format 7, .* reads up to 1"):
        await FileJournal(disk, "r1").read_new()
    assert b'"v":7' in disk.file.data


async def test_an_event_that_cannot_be_read_back_is_not_written() -> None:
    disk = MemoryDisk()
    journal = await begin(disk)
    before = bytes(disk.file.data)
    with pytest.raises(InvariantBroken, match="RunPaused event cannot be written"):
        await journal.commit(2, [paused(None)], now=NOW)  # type: ignore[arg-type]
    assert bytes(disk.file.data) == before


# On a real disk


async def test_a_disk_that_hangs_does_not_hang_the_loop() -> None:
    thread, released = DiskThread(), threading.Event()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(thread.run, released.wait)
            await trio.lowlevel.checkpoint()
            released.set()  # reached only because the loop goes on
    thread.close()


async def test_a_cancelled_commit_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    journal = open_journal(path, "r1")
    with trio.CancelScope() as scope:
        scope.cancel()
        await journal.commit(0, begun(), now=NOW)
    assert scope.cancelled_caught
    assert list(read_entries(path)) == []

    thread, started, released = DiskThread(), trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()
    results: list[str] = []

    def write() -> str:
        token.run_sync_soon(started.set)
        released.wait()
        return "written"

    async def commit(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            results.append(await thread.run(write))

    async with trio.open_nursery() as nursery:
        scope = await nursery.start(commit)
        await started.wait()
        scope.cancel()
        released.set()
    assert results == ["written"]


async def test_a_commit_to_a_real_disk_is_synced_after_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    synced: list[bytes] = []
    disk = FileDisk(path, datasync=lambda descriptor: synced.append(path.read_bytes()))
    await FileJournal(disk, "r1").commit(0, begun(), now=NOW)
    assert synced == [path.read_bytes()] != [b""]
    disk.close()


async def test_a_real_disk_that_fails_to_sync_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    asked: list[int] = []

    def fail(descriptor: int) -> None:
        asked.append(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    disk = FileDisk(path, datasync=fail)
    journal = FileJournal(disk, "r1")
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="failed to sync"):
            await journal.commit(0, begun(), now=NOW)
    assert (len(asked), path.read_bytes()) == (1, b"")
    disk.close()


async def test_torn_bytes_are_kept_beside_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"first")
    assert list(await open_journal(path, "r1").read_new()) == []
    with path.open("ab") as file:
        file.write(b"second")
    await open_journal(path, "r1").commit(0, begun(), now=NOW)
    assert (tmp_path / "events.torn-1").read_bytes() == b"first"
    assert (tmp_path / "events.torn-2").read_bytes() == b"second"
    assert len(list(read_entries(path))) == 2


async def test_a_run_directory_that_was_deleted_or_replaced_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    journal = open_journal(path, "r1")
    path.unlink()
    with pytest.raises(EnvironmentFault, match="No such file"):
        await journal.commit(0, begun(), now=NOW)
    path.touch()
    with pytest.raises(EnvironmentFault, match="another file has taken its place"):
        await journal.commit(0, begun(), now=NOW)
    with pytest.raises(EnvironmentFault, match="cannot be opened"):
        FileDisk(tmp_path / "nowhere" / "events.jsonl")


async def test_every_call_is_made_by_the_same_thread() -> None:
    thread = DiskThread()
    assert len({await thread.run(threading.get_native_id) for _ in range(5)}) == 1
    thread.close()


async def test_what_fails_in_the_thread_fails_in_its_caller(tmp_path: Path) -> None:
    thread = DiskThread()
    with pytest.raises(FileNotFoundError):
        await thread.run((tmp_path / "nothing").read_bytes)
    thread.close()
