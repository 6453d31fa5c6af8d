"""Whatever happens to a journal's file, what was committed is read back, whole and in order."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hypothesis import example, given, settings, strategies as st

from orchestrator.core.errors import EnvironmentFault, JournalDamaged
from orchestrator.core.events import Entry, KnownEvent
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.file import FileJournal
from orchestrator.journal.read import read_entries
from orchestrator.journal.scan import Follower
from orchestrator.ports.journal import Committed, Conflict
from tests.fakes.disk import MemoryDisk, MemoryFile
from tests.unit.journal.events import NOW, begun, dispatched, paused, recorded

COMMITS: list[list[KnownEvent]] = [
    begun(),
    [dispatched("T1")],
    [recorded("T1"), paused("one\ntwo"), paused('quoted ",\\"end\\":true}')],
    [paused()],
    [paused("é"), paused("last")],
]


def written(commits: list[list[KnownEvent]]) -> tuple[bytes, list[int], list[Entry]]:
    """The file; where each commit ends; the entries."""
    data, ends, entries = b"", [0], list[Entry]()
    for events in commits:
        more, committed = encode_commit(events, after_seq=len(entries), run_id="r1", now=NOW)
        data += more
        ends.append(len(data))
        entries += committed
    return data, ends, entries


def reopened(data: bytes) -> tuple[list[Entry], MemoryFile]:
    """What a program reads that opens the file and appends one event, and the file after it."""
    file = MemoryFile(bytearray(data))

    async def use() -> list[Entry]:
        journal = FileJournal(MemoryDisk(file), "r1")
        seen: list[Entry] = []
        while entries := await journal.read_new():
            seen += entries
        answer = await journal.commit(len(seen), [paused("after")], now=NOW)
        assert isinstance(answer, Committed)
        return seen

    return trio.run(use), file


def all_in(data: bytes) -> list[Entry]:
    follower = Follower(lambda offset, size: data[offset : offset + size], "events.jsonl")
    seen: list[Entry] = []
    while entries := follower.next_batch().entries:
        seen += entries
    return seen


def test_cut_at_any_byte_it_recovers_to_whole_commits() -> None:
    data, ends, entries = written(COMMITS)
    for cut in range(len(data) + 1):
        whole = max(end for end in ends if end <= cut)
        seen, file = reopened(data[:cut])
        assert seen == entries[: sum(map(len, COMMITS[: ends.index(whole)]))]
        assert b"".join(file.aside) == data[whole:cut]
        assert len(all_in(bytes(file.data))) == len(seen) + 1


@given(st.binary(min_size=1, max_size=200))
def test_a_garbage_tail_is_cut_and_kept(garbage: bytes) -> None:
    data, _, entries = written(COMMITS)
    seen, file = reopened(data + garbage)
    assert seen == entries
    assert file.aside == [garbage]


@given(st.data())
def test_a_last_commit_with_holes_is_cut_whole(data: st.DataObject) -> None:
    """Blocks of it may reach the disk in any order: after a loss of power any may be NUL."""
    last: list[KnownEvent] = [recorded("T1"), *(paused(f"{n}" * 40) for n in range(5))]
    commits = [*COMMITS, last]
    whole, ends, entries = written(commits)
    start = data.draw(st.integers(ends[-2], len(whole) - 1))
    length = data.draw(st.integers(1, len(whole) - start))
    torn = whole[:start] + b"\0" * length + whole[start + length :]
    seen, file = reopened(torn)
    assert seen == entries[: -len(last)]
    assert file.aside == [torn[ends[-2] :]]


@given(st.data())
def test_damage_in_the_middle_is_refused_with_its_line(data: st.DataObject) -> None:
    whole, ends, _ = written(COMMITS)
    number = data.draw(st.integers(0, len(COMMITS) - 2))
    start = data.draw(st.integers(ends[number], ends[number + 1] - 2))
    length = data.draw(st.integers(1, ends[number + 1] - 1 - start))
    damaged = whole[:start] + b"\0" * length + whole[start + length :]
    with pytest.raises(JournalDamaged, match=rf"line {whole[:start].count(10) + 1}\b"):
        reopened(damaged)


@given(st.integers(1, len(written(COMMITS)[0]) * 2))
def test_batches_of_any_size_give_the_same(batch_bytes: int) -> None:
    data, _, entries = written(COMMITS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.journal.scan.BATCH_BYTES", batch_bytes)
        assert all_in(data) == entries


# What may happen to two processes on one file, in any order.
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "read", "killed in append", "no room", "sync fails", "power"]),
        st.integers(0, 1),
        st.integers(0, 300),
    ),
    max_size=30,
)


class Process:
    """Decides on what it has read, as LiveRun does, and checks that it had read everything."""

    def __init__(self, file: MemoryFile) -> None:
        self.disk = MemoryDisk(file)
        self.journal = FileJournal(self.disk, "r1")
        self.known: list[Entry] = []

    async def read(self) -> None:
        while entries := await self.journal.read_new():
            self.known += entries

    async def commit(self, name: str) -> list[Entry]:
        events = [paused(f"{name} after {len(self.known)}"), paused(name)]
        answer = await self.journal.commit(len(self.known), events, now=NOW)
        while isinstance(answer, Conflict):
            assert answer.seen
            self.known += answer.seen
            events = [paused(f"{name} after {len(self.known)}"), paused(name)]
            answer = await self.journal.commit(len(self.known), events, now=NOW)
        self.known += answer.entries
        return list(answer.entries)


@settings(max_examples=150, deadline=None)
@example([("killed in append", 0, 197), ("killed in append", 0, 197)])
@given(_STEPS)
def test_two_writers_lose_nothing_whatever_fails(steps: list[tuple[str, int, int]]) -> None:
    trio.run(_two_writers, steps)


async def _two_writers(steps: list[tuple[str, int, int]]) -> None:
    file = MemoryFile()
    processes = [Process(file), Process(file)]
    durable: list[Entry] = []
    for number, (step, who, size) in enumerate(steps):
        process = processes[who]
        match step:
            case "commit":
                durable += await process.commit(f"{number}")
            case "read":
                await process.read()
                assert process.known == durable
            case "killed in append":
                await process.read()  # a commit cuts what another's death has left, and then writes
                data, _ = encode_commit(
                    [paused("x" * 100), paused()], after_seq=len(durable), run_id="r1", now=NOW
                )
                file.data += data[: min(size, len(data) - 1)]
                processes[who] = Process(file)
            case "no room":
                file.room = size
                durable += await _tried(process, f"{number}")
                file.room = None
            case "sync fails":
                process.disk.fail_sync = 5
                assert await _tried(process, f"{number}") == []
                with pytest.raises(EnvironmentFault):
                    await process.commit("never again")
                processes[who] = Process(file)
            case "power":
                file.lose_power(lambda unsynced, size=size: unsynced[:size])  # type: ignore[misc]
                processes[:] = [Process(file), Process(file)]
            case _:
                raise AssertionError(step)
    for process in processes:
        await process.read()
        assert process.known == durable
    for entry in durable[::2]:
        reason = entry.event.reason  # type: ignore[union-attr]
        assert reason.endswith(f" after {entry.seq - 1}"), "decided on stale state"


async def _tried(process: Process, name: str) -> list[Entry]:
    try:
        return await process.commit(name)
    except EnvironmentFault:
        return []


_WRITER = """
import sys, trio
from pathlib import Path
from orchestrator.core.events import RunPaused
from orchestrator.journal.disk import open_journal
from orchestrator.ports.journal import Committed

async def main(path, name):
    journal, seq, said = open_journal(Path(path), "r1"), 0, 0
    while entries := await journal.read_new():
        seq = entries[-1].seq
    while True:
        events = [RunPaused(reason=f"{name} {said}", by=str(seq)), RunPaused(reason="x" * 5000)]
        answer = await journal.commit(seq, events, now=0.0)
        if isinstance(answer, Committed):
            seq = answer.entries[-1].seq
            print(f"{name} {said}", flush=True)
            said += 1
        elif answer.seen:
            seq = answer.seen[-1].seq

trio.run(main, *sys.argv[1:])
"""


@pytest.mark.slow
def test_killed_processes_lose_nothing_they_had_committed(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    told: list[str] = []
    for number in range(6):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", _WRITER, str(path), f"{name}{number}"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            for name in "AB"
        ]
        for writer, lines in zip(writers, (3 + 7 * number, 1 << 30), strict=True):
            assert writer.stdout is not None
            while lines and (line := writer.stdout.readline()):
                told.append(line.strip())
                lines -= 1
                if writer is writers[1] and len(told) % 13 == 0:
                    break
            os.kill(writer.pid, signal.SIGKILL)
            told += writer.stdout.read().split("\n")[:-1]
            writer.stdout.close()
            writer.wait()
    entries = list(read_entries(path))
    assert [e.seq for e in entries] == list(range(1, len(entries) + 1))
    events = [e.event for e in entries[::2]]
    assert all(e.by == str(s.seq - 1) for e, s in zip(events, entries[::2], strict=True))  # type: ignore[union-attr]
    committed = [e.reason for e in events]  # type: ignore[union-attr]
    assert len(set(committed)) == len(committed)
    assert {line for line in told if line} <= set(committed)
    assert len(told) > 50
