"""The places for children that all drivers of a host share: kept by the kernel."""

import os
import signal
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from adapters.host import waiting
from orchestrator.core.model import ResultStatus
from orchestrator.core.settings import Settings
from orchestrator.ports.execution import SeenAlive
from tests.e2e.supervision import BOUND_S, QUICK, Bench, factory, until, until_there

PLACES = QUICK.host_children_max
UNTIL_GO = "echo start; until [ -e go ]; do sleep 0.01; done; echo RESULT"


def taken(bench: Bench) -> int:
    free = bench.slots().free(PLACES)
    assert free is not None
    return PLACES - free


async def test_no_more_is_prepared_than_there_are_places(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Settings(host_children_max=2))
    first, second, third = (bench.shell("echo RESULT", dispatch=number) for number in (1, 2, 3))
    one, other = bench.executor(), bench.executor()
    assert await one.prepare(first)
    assert await other.prepare(second)
    for driver in (one, other):
        assert not await driver.prepare(third)
    assert not list(bench.stem(third).directory.glob("*.d3.*"))  # nothing of it is left
    await one.discard(first)
    assert await one.prepare(third)
    with trio.fail_after(BOUND_S):
        assert (await one.run(third, lambda _: None)).status is ResultStatus.SUCCESS
        assert (await other.run(second, lambda _: None)).status is ResultStatus.SUCCESS
    assert taken(bench) == 0


async def test_what_cannot_be_prepared_keeps_no_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "stages").write_text("in the way of the directory")
    with pytest.raises(Exception, match="cannot prepare"):
        await bench.executor().prepare(bench.shell("true"))
    assert taken(bench) == 0


async def test_a_killed_drivers_child_keeps_its_place_until_it_ends(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(UNTIL_GO)
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
    assert isinstance(await bench.executor().find(bench.lease(work)), SeenAlive)
    assert taken(bench) == 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.attach, work)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert taken(bench) == 1  # adoption takes no second one
        (tmp_path / "go").touch()
    assert taken(bench) == 0


async def test_a_driver_killed_before_the_spawn_leaves_no_place_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with factory(tmp_path) as drivers:
        for number in range(1, 9):
            work = bench.shell("until [ -e go ]; do sleep 0.01; done", dispatch=number)
            driver = drivers.drive(work)
            drivers.kill(driver)
            alive = isinstance(await bench.executor().find(bench.lease(work)), SeenAlive)
            assert taken(bench) == alive
            assert await bench.executor().stop(bench.lease(work)) == 0
            assert taken(bench) == 0


async def test_a_child_that_lost_its_shim_keeps_its_drivers_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(UNTIL_GO)
    executor = bench.executor()
    assert await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        await _kill_shim(bench, work.dispatch)
        assert taken(bench) == 1
        (tmp_path / "go").touch()
    assert taken(bench) == 0


@pytest.mark.parametrize("when", ["before the adoption", "after it"])
async def test_whoever_adopts_a_child_without_its_shim_takes_a_place(
    tmp_path: Path, when: str
) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(UNTIL_GO)
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
    if when == "before the adoption":
        await _kill_shim(bench, work.dispatch)
        assert taken(bench) == 0  # nobody is there to hold one: the bound is so much higher
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.attach, work)
        await trio.testing.wait_all_tasks_blocked(0.05)
        if when == "after it":
            await _kill_shim(bench, work.dispatch)
        await until_there(lambda: taken(bench) == 1)
        (tmp_path / "go").touch()
    assert taken(bench) == 0


async def test_a_second_start_keeps_the_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Settings(host_children_max=1))
    again = ["sh", "-c", UNTIL_GO]
    work = bench.work(
        [],
        inputs={
            "argv": ["sh", "-c", "echo 'try the other way' >&2; exit 1"],
            "argv_again": again,
        },
    )
    executor = bench.executor()
    assert await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        await until_there(bench.stem(work).second.shim.exists)
        assert bench.slots().take(1) is None
        (tmp_path / "go").touch()
    assert bench.slots().free(1) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
async def test_the_child_holds_neither_lock(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("ls -l /proc/self/fd; echo RESULT")
    assert (await bench.run(work)).status is ResultStatus.SUCCESS
    assert ".lock" not in bench.stem(work).stream.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
async def test_a_shim_holds_its_two_locks_and_nothing_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(UNTIL_GO)
    executor = bench.executor()
    assert await executor.prepare(work)
    stray = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(stray, True)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.run, work, lambda _: None)
            await until_there(bench.stem(work).shim.exists)
            record = bench.stem(work).read_shim()
            assert record is not None
            table = f"/proc/{record.shim.pid}/fd"
            held = [os.readlink(f"{table}/{name}") for name in os.listdir(table)]
            (tmp_path / "go").touch()
    finally:
        os.close(stray)
    locks = sorted(Path(path).name for path in held if path.endswith(".lock"))
    assert locks == ["00.lock", bench.stem(work).lock.name]
    assert str(tmp_path) not in held


async def _kill_shim(bench: Bench, dispatch: int) -> None:
    """Leaves the child alone in the world."""
    stem = bench.stem(bench.shell("", dispatch=dispatch))
    await until_there(lambda: stem.read_shim() is not None and stem.stream.stat().st_size)
    record = stem.read_shim()
    assert record is not None
    assert waiting.signal_if_same(record.shim, signal.SIGKILL)
    await waiting.wait_for_exit(record.shim)
    assert waiting.is_alive(record.child)
