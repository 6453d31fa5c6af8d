"""What every journal does: in memory, in a file on a disk in memory, in a file on a real disk.

``journals(n)`` gives n handles on one journal, as n processes would have it open.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from orchestrator.core.errors import InvariantBroken
from orchestrator.core.events import Entry
from orchestrator.journal.disk import FileDisk
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from orchestrator.ports.journal import Committed, Conflict, Journal
from tests.fakes.disk import MemoryDisk, MemoryFile
from tests.fakes.journal import MemoryJournal, MemoryLog
from tests.unit.journal.events import NOW, added, begun, created, paused

Journals = Callable[[int], list[Journal]]


@pytest.fixture(params=["memory", "file in memory", "file on disk"])
def journals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journals]:
    disks: list[FileDisk] = []

    def memory(number: int) -> list[Journal]:
        log = MemoryLog()
        return [MemoryJournal(log) for _ in range(number)]

    def file_in_memory(number: int) -> list[Journal]:
        file = MemoryFile()
        return [FileJournal(MemoryDisk(file), "r1") for _ in range(number)]

    def file_on_disk(number: int) -> list[Journal]:
        path = tmp_path / "events.jsonl"
        path.touch()
        disks.extend(FileDisk(path) for _ in range(number))
        return [FileJournal(disk, "r1") for disk in disks]

    yield {
        "memory": memory,
        "file in memory": file_in_memory,
        "file on disk": file_on_disk,
    }[request.param]
    for disk in disks:
        disk.close()


async def all_of(journal: Journal) -> list[Entry]:
    seen: list[Entry] = []
    while entries := await journal.read_new():
        seen += entries
    return seen


async def test_a_commit_is_numbered_stamped_and_read_by_others(journals: Journals) -> None:
    one, other = journals(2)
    answer = await one.commit(0, begun(), now=NOW)
    assert isinstance(answer, Committed)
    assert [(e.seq, e.ts, e.run_id) for e in answer.entries] == [(1, NOW, "r1"), (2, NOW, "r1")]
    assert [e.event for e in answer.entries] == begun()
    assert await all_of(other) == list(answer.entries)


async def test_what_was_committed_is_not_read_again(journals: Journals) -> None:
    (journal,) = journals(1)
    await journal.commit(0, begun(), now=NOW)
    assert list(await journal.read_new()) == []
    answer = await journal.commit(2, [paused()], now=NOW)
    assert isinstance(answer, Committed)
    assert answer.entries[0].seq == 3


async def test_who_decided_on_less_than_there_is_is_told_and_writes_nothing(
    journals: Journals,
) -> None:
    one, other, reader = journals(3)
    await one.commit(0, begun(), now=NOW)
    answer = await other.commit(0, [created()], now=NOW)
    assert isinstance(answer, Conflict)
    assert [e.event for e in answer.seen] == begun()
    assert len(await all_of(reader)) == 2
    assert isinstance(await other.commit(2, [paused()], now=NOW), Committed)


async def test_a_conflict_repeats_nothing_that_was_read(journals: Journals) -> None:
    one, other = journals(2)
    await one.commit(0, begun(), now=NOW)
    await all_of(other)
    assert await other.commit(0, [paused()], now=NOW) == Conflict(())


async def test_an_empty_commit_is_a_bug(journals: Journals) -> None:
    (journal,) = journals(1)
    with pytest.raises(InvariantBroken):
        await journal.commit(0, [], now=NOW)


async def test_waiting_ends_when_another_appends(journals: Journals) -> None:
    one, other = journals(2)
    await one.commit(0, begun(), now=NOW)
    with trio.fail_after(5):
        await other.wait_for_others()
        await all_of(other)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.wait_for_others)
            await one.commit(2, [paused()], now=NOW)
    assert [e.seq for e in await all_of(other)] == [3]


async def test_a_waiter_is_told_once_until_it_reads(journals: Journals) -> None:
    """Otherwise one that waits in a loop of its own would spin until another task reads."""
    one, other = journals(2)
    await one.commit(0, begun(), now=NOW)
    with trio.fail_after(5):
        await other.wait_for_others()
    with trio.move_on_after(0.3) as patience:
        await other.wait_for_others()
    assert patience.cancelled_caught
    await all_of(other)
    await one.commit(2, [paused()], now=NOW)
    with trio.fail_after(5):
        await other.wait_for_others()


async def test_own_commits_are_not_waited_for(journals: Journals) -> None:
    one, other = journals(2)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            woken = trio.Event()

            async def wait() -> None:
                await one.wait_for_others()
                woken.set()

            nursery.start_soon(wait)
            await one.commit(0, begun(), now=NOW)
            await trio.testing.wait_all_tasks_blocked()
            assert not woken.is_set()
            await all_of(other)
            await other.commit(2, [paused()], now=NOW)


async def test_two_live_runs_interleave_and_agree(journals: Journals) -> None:
    maker, one, other, reader = journals(4)
    await maker.commit(0, [created()], now=NOW)
    async with trio.open_nursery() as nursery:
        for journal, name in ((one, "A"), (other, "B")):
            nursery.start_soon(_add_tasks, await LiveRun.open(journal), name)
    state = (await LiveRun.open(reader)).state
    assert sorted(state.tasks) == sorted(f"{name}{n}" for name in "AB" for n in range(20))


async def _add_tasks(run: LiveRun, name: str) -> None:
    for number in range(20):
        task = added(f"{name}{number}")
        assert len(await run.commit(lambda _, task=task: [task], now=NOW)) == 1  # type: ignore[misc]


async def test_two_tasks_may_commit_through_one_live_run(journals: Journals) -> None:
    maker, one, reader = journals(3)
    await maker.commit(0, [created()], now=NOW)
    run = await LiveRun.open(one)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_add_tasks, run, "A")
        nursery.start_soon(_add_tasks, run, "B")
    assert len(run.state.tasks) == 40
    assert (await LiveRun.open(reader)).state.seq == run.state.seq == 41


async def test_a_live_run_decides_anew_on_what_others_did(journals: Journals) -> None:
    maker, one, other = journals(3)
    await maker.commit(0, [created()], now=NOW)
    first, second = await LiveRun.open(one), await LiveRun.open(other)
    task = added("T1")
    await first.commit(lambda state: [task], now=NOW)
    seen: list[int] = []
    committed = await second.commit(
        lambda state: [] if seen.append(len(state.tasks)) or "T1" in state.tasks else [task],  # type: ignore[func-returns-value]
        now=NOW,
    )
    assert committed == ()
    assert seen == [0, 1]
