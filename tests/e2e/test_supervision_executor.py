"""The executor when lanes, disks and children misbehave; real processes."""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from adapters.execution.lanes import Command, Reader
from adapters.execution.tail import CHUNK_BYTES
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.model import Cause, ChildExit, Ending, ResultStatus, WorkItem
from orchestrator.core.settings import Settings
from orchestrator.ports.execution import Observation, ResultSeen, Started
from tests.e2e.supervision import BOUND_S, QUICK, Bench, ScriptLane, ScriptReader, until_there

THE_OTHER_WAY = "echo 'try the other way' >&2; exit 1"


async def test_a_lane_may_ask_for_one_second_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.work(
        [], inputs={"argv": ["sh", "-c", THE_OTHER_WAY], "argv_again": ["sh", "-c", "echo RESULT"]}
    )
    ending = await bench.run(work)
    assert ending.status is ResultStatus.SUCCESS
    stem = bench.stem(work)
    assert stem.stderr.read_text() == "try the other way\n"
    assert stem.second.stream.read_text() == "RESULT\n"
    assert stem.second.path == stem.path + ".s2"
    # The next driver finds the start that counts.
    assert await bench.attach(work) == ending


async def test_the_second_start_is_made_by_the_next_driver_if_need_be(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.work(
        [], inputs={"argv": ["sh", "-c", THE_OTHER_WAY], "argv_again": ["sh", "-c", "echo RESULT"]}
    )
    executor = bench.executor()
    await executor.prepare(work)
    with trio.CancelScope() as scope:  # it dies before the first start has ended
        await executor.run(work, lambda _: scope.cancel())
    await until_there(lambda: bench.stem(work).read_exit())
    assert (await bench.attach(work)).status is ResultStatus.SUCCESS
    assert bench.stem(work).second.stream.read_text() == "RESULT\n"


async def test_there_is_no_third_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    argv = ["sh", "-c", "echo x >> starts; " + THE_OTHER_WAY]
    ending = await bench.run(bench.work([], inputs={"argv": argv, "argv_again": argv}))
    assert (ending.cause, ending.error) == (Cause.CRASH, "it said: the other way")
    assert (tmp_path / "starts").read_text() == "x\nx\n"


async def test_a_result_is_kept_when_the_child_had_to_be_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("trap '' INT TERM; echo RESULT; sleep 600 & wait; sleep 600")
    ending = await bench.run(work)
    assert ending.status is ResultStatus.SUCCESS
    assert (ending.exit.reason, ending.exit.survivors) == ("exited", 0)
    record = bench.stem(work).read_exit()
    assert record is not None
    assert record.reason == "stopped"


async def test_a_later_result_renews_the_wait(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Settings(result_linger_s=0.5, interrupt_wait_s=0.1))
    bench.lane = _EveryResult()
    source = "for i in 1 2 3; do echo RESULT; sleep 0.3; done; echo end"
    ending = await bench.run(bench.shell(source))
    assert ending.exit.code == 0
    assert ending.exit.duration_s > 0.8


class _EveryResult(ScriptLane):
    def reader(self, work: WorkItem) -> Reader:
        return _EveryResultReader()


class _EveryResultReader(ScriptReader):
    def feed(self, data: bytes) -> tuple[Observation, ...]:
        self.has_result = True
        return (ResultSeen(),) * data.count(b"RESULT")


class _Faulty(ScriptLane):
    def __init__(self, where: str) -> None:
        self.where = where

    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        if self.where == "command":
            raise KeyError("a bug")
        return super().command(work, prompt_file, again=again)

    def reader(self, work: WorkItem) -> Reader:
        return _FaultyReader() if self.where == "feed" else super().reader(work)

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending:
        raise KeyError("a bug")


class _FaultyReader(ScriptReader):
    def feed(self, data: bytes) -> tuple[Observation, ...]:
        raise KeyError("a bug")


@pytest.mark.parametrize("where", ["command", "feed", "conclude"])
async def test_a_bug_in_a_lane_ends_one_dispatch_and_leaves_no_process(
    tmp_path: Path, where: str
) -> None:
    bench = Bench(tmp_path, QUICK, _Faulty(where))
    work = bench.shell("echo RESULT; sleep 600" if where == "feed" else "echo RESULT")
    ending = await bench.run(work)
    assert ending.cause is Cause.CRASH
    assert ending.error == f"{work.id}: unexpected KeyError: 'a bug'"
    assert not bench.stem(work).is_locked()
    assert bench.tagged(work) == []


class _ShortOfDescriptors(ScriptLane):
    def __init__(self) -> None:
        self.readers = 0

    def reader(self, work: WorkItem) -> Reader:
        self.readers += 1
        return _NoDescriptors() if self.readers == 1 else super().reader(work)


class _NoDescriptors(ScriptReader):
    def feed(self, data: bytes) -> tuple[Observation, ...]:
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_machine_in_trouble_does_not_cost_a_child_its_work(tmp_path: Path) -> None:
    lane = _ShortOfDescriptors()
    bench = Bench(tmp_path, QUICK, lane)
    ending = await bench.run(bench.shell("echo one; sleep 0.3; echo RESULT"))
    assert (ending.status, ending.exit.code) == (ResultStatus.SUCCESS, 0)
    assert lane.readers == 2


async def test_a_lane_that_nobody_executes_is_an_ending(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    executor = bench.executor("headless:other")
    work = bench.shell("echo RESULT")
    await executor.prepare(work)
    ending = await executor.run(work, lambda _: None)
    assert ending.cause is Cause.MISCONFIGURED
    assert "engine:none" in ending.error


async def test_what_cannot_be_prepared_says_where(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "stages").write_text("a file where a directory should be")
    with pytest.raises(EnvironmentFault, match=r"cannot prepare T1/test/a1/d1: .*stages"):
        await bench.executor().prepare(bench.shell("true"))


async def test_what_runs_cannot_be_prepared_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("true")
    holder = bench.executor()
    await holder.prepare(work)
    with pytest.raises(EnvironmentFault, match="is running already"):
        await bench.executor().prepare(work)
    await holder.discard(work)


@contextmanager
def _few_descriptors(spare: int) -> Iterator[None]:
    """So many can be opened, and not one more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(fd) for fd in os.listdir("/dev/fd")}
    free = [fd for fd in range(max(taken) + spare + 2) if fd not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.parametrize("spare", range(8))
async def test_with_hardly_a_descriptor_left_nothing_runs_unseen(
    tmp_path: Path, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.execution.executor.STOP_TRIES", 1)
    bench = Bench(tmp_path)
    work = bench.shell("echo RESULT; sleep 600")
    executor = bench.executor()
    await executor.prepare(work)
    ending = None
    # Where not even stopping is possible, it is not said to have ended.
    with _few_descriptors(spare), contextlib.suppress(OSError):
        ending = await executor.run(work, lambda _: None)
    if ending is not None:
        assert ending.cause in (None, Cause.CRASH)
        assert (bench.stem(work).is_locked(), bench.tagged(work)) == (False, [])
    # It can be judged afterwards, whichever way it went.
    assert (await bench.attach(work)).cause in (None, Cause.CRASH)
    assert bench.tagged(work) == []


FLOOD = """
import os, sys
block = sys.argv[2].encode() * (1 << 20)
for _ in range(int(sys.argv[1])):
    os.write(1, block)
os.write(1, b"\\nRESULT\\n")
"""


async def test_a_line_of_a_hundred_megabytes_is_read_in_bounded_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ending = await bench.run(bench.python(FLOOD, "100", "x"))
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert ending.status is ResultStatus.SUCCESS
    assert ending.evidence["bytes"] > 100 << 20
    assert grown_kb < 20_000
    bench.stem(bench.shell("")).stream.unlink()


async def test_a_flood_does_not_starve_the_loop(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.python(FLOOD, "32", "x")
    await bench.run(work)
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turns)
        await bench.attach(work)  # all of it is there to be read at once
        nursery.cancel_scope.cancel()
    assert turns >= (32 << 20) / CHUNK_BYTES
    bench.stem(work).stream.unlink()


async def test_bytes_that_are_no_text_pass_through(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.python(
        "import os; os.write(1, bytes(range(256)) + b'RESULT'); os.write(2, bytes(range(256)))"
    )
    ending = await bench.run(work)
    assert ending.status is ResultStatus.SUCCESS
    assert bench.stem(work).stream.read_bytes() == bytes(range(256)) + b"RESULT"
    assert len(ending.evidence["stderr"]) >= 250


async def test_a_program_whose_name_no_reader_would_like_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    name = 'no "such"\n\\ program \U0001f600'
    ending = await bench.run(bench.work([name]))
    assert ending.cause is Cause.INFRASTRUCTURE
    assert '"such"' in ending.error


async def test_many_at_once_are_each_followed_to_their_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, msgspec.structs.replace(QUICK, host_children_max=24))
    executor = bench.executor()
    endings: list[Ending] = []
    started = 0

    def observe(observation: Observation) -> None:
        nonlocal started
        started += isinstance(observation, Started)

    async def one(dispatch: int) -> None:
        work = bench.python("print('RESULT')", dispatch=dispatch)
        assert await executor.prepare(work)
        endings.append(await executor.run(work, observe))

    with trio.fail_after(BOUND_S * 2):
        async with trio.open_nursery() as nursery:
            for dispatch in range(1, 25):
                nursery.start_soon(one, dispatch)
    assert (len(endings), started) == (24, 24)
    assert all(ending.status is ResultStatus.SUCCESS for ending in endings)
