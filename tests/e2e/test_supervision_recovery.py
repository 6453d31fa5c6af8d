"""Drivers and shims killed at any moment: what lives is found, what ended is harvested."""

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from adapters.execution import supervise
from adapters.execution.stems import ShimRecord, Stem
from adapters.host import processes, waiting
from adapters.host.local import LocalHost
from orchestrator.core.model import Cause, ProcessIdentity, ResultStatus, WorkItem
from orchestrator.ports.execution import SeenAlive, SeenDead, SeenEnded, SeenNothing
from tests.e2e.supervision import Bench, Factory, factory, until, until_there

TOLD_WITHIN_S = 30.0
WAIT_FOR_GO = "echo start; until [ -e {go} ]; do sleep 0.01; done; echo RESULT"


async def _adopted(bench: Bench, work: WorkItem) -> None:
    """Take it up as the next driver would, and see it end well."""
    assert isinstance(await bench.executor().find(bench.lease(work)), SeenAlive)
    (bench.root / "go").touch()
    ending = await bench.attach(work)
    assert (ending.status, ending.exit.code) == (ResultStatus.SUCCESS, 0)
    assert bench.stem(work).stream.read_text() == "start\nRESULT\n"


async def test_a_killed_drivers_child_goes_on_and_is_adopted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(WAIT_FOR_GO.format(go="go"))
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
        await _adopted(bench, work)


async def test_liveness_is_right_whenever_the_driver_is_killed(tmp_path: Path) -> None:
    with factory(tmp_path) as drivers:
        await _kill_around_the_spawn(Bench(tmp_path), drivers, kills=12, seed=1)


@pytest.mark.slow
async def test_liveness_is_right_over_many_kills(tmp_path: Path) -> None:
    with factory(tmp_path) as drivers:
        await _kill_around_the_spawn(Bench(tmp_path), drivers, kills=150, seed=2)


async def _kill_around_the_spawn(bench: Bench, drivers: Factory, *, kills: int, seed: int) -> None:
    """Kill from before the spawn to after the shim has written who it is."""
    chance = random.Random(seed)
    lived: list[int] = []
    for dispatch in range(1, kills + 1):
        go = f"go-{dispatch}"
        work = bench.shell(
            f"echo x >> runs-{dispatch}; " + WAIT_FOR_GO.format(go=go), dispatch=dispatch
        )
        driver = drivers.drive(work)
        await trio.sleep(chance.uniform(0, 0.03))  # the moment is what is being tried
        drivers.kill(driver)
        stem = bench.stem(work)
        found = await bench.executor().find(bench.lease(work))
        if isinstance(found, SeenAlive):
            # Killed in the midst of the spawn, the tag is not to be seen before the exec.
            await until_there(partial(bench.tagged, work))
        else:
            assert found == SeenNothing()
            assert (stem.is_locked(), bench.tagged(work)) == (False, [])
        (bench.root / go).touch()
        if isinstance(found, SeenAlive):
            assert (await bench.attach(work)).status is ResultStatus.SUCCESS
            assert await bench.executor().find(bench.lease(work)) == SeenEnded()
            lived.append(dispatch)
    ran = [number for number in range(1, kills + 1) if (bench.root / f"runs-{number}").exists()]
    assert ran == lived != []
    assert all((bench.root / f"runs-{number}").read_text() == "x\n" for number in ran)


async def test_a_detached_dispatch_is_taken_up_within_one_driver(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(WAIT_FOR_GO.format(go="go"))
    executor = bench.executor()
    await executor.prepare(work)
    with trio.CancelScope() as scope:
        await executor.run(work, lambda _: scope.cancel())
    assert scope.cancelled_caught
    await _adopted(bench, work)


async def test_the_end_of_an_adopted_child_is_told_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LOOK_AGAIN_S", 3600.0)  # nobody looks by himself
    bench = Bench(tmp_path)
    work = bench.python(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.005)\nos.write(1, b'RESULT')"
    )
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
        with trio.fail_after(TOLD_WITHIN_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.attach, work)
                await trio.testing.wait_all_tasks_blocked()
                (tmp_path / "go").touch()


async def test_what_ended_without_a_driver_is_harvested(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo RESULT; exit 3")
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
    await until_there(lambda: not bench.stem(work).is_locked())
    assert isinstance(await bench.executor().find(bench.lease(work)), SeenEnded)
    for _ in range(2):  # resume twice = resume once
        ending = await bench.attach(work)
        assert (ending.status, ending.exit.code) == (ResultStatus.SUCCESS, 3)


STUBBORN = (
    "setsid sh -c \"trap '' TERM; echo start; while :; do sleep 0.05; done\" & "
    "until [ -e go ]; do sleep 0.01; done; echo RESULT"
)
"""What it leaves behind ignores SIGTERM, and is in a session of its own."""


async def _kill_shim(stem: Stem) -> ShimRecord:
    """Leaves the child alone in the world."""
    await until_there(lambda: stem.read_shim() is not None and stem.stream.stat().st_size)
    record = stem.read_shim()
    assert record is not None
    assert waiting.signal_if_same(record.shim, signal.SIGKILL)
    await waiting.wait_for_exit(record.shim)
    assert not stem.is_locked()
    assert waiting.is_alive(record.child)
    return record


async def test_a_shim_killed_under_its_driver_leaves_the_child_to_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(STUBBORN)
    executor = bench.executor()
    await executor.prepare(work)
    endings = []

    async def run() -> None:
        endings.append(await executor.run(work, lambda _: None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await _kill_shim(bench.stem(work))
        (tmp_path / "go").touch()
    (ending,) = endings
    assert (ending.status, ending.exit.reason) == (ResultStatus.SUCCESS, "shim_lost")
    assert (ending.exit.survivors, bench.tagged(work)) == (0, [])


@pytest.mark.parametrize("is_identity_written", [True, False])
async def test_a_child_without_its_shim_is_adopted(
    tmp_path: Path, is_identity_written: bool
) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(STUBBORN)
    stem = bench.stem(work)
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(stem.shim.exists)
        drivers.kill(driver)
    await _kill_shim(stem)
    if not is_identity_written:  # as if killed in the instant before
        stem.shim.unlink()
    assert await bench.executor().find(bench.lease(work)) == SeenAlive(shim_lost=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.attach, work)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert bench.tagged(work) != []
        (tmp_path / "go").touch()
    assert bench.tagged(work) == []
    assert stem.stream.read_text() == "start\nRESULT\n"
    assert await bench.executor().find(bench.lease(work)) == SeenEnded()


async def test_the_deadline_of_a_child_without_its_shim_is_the_drivers(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo start; sleep 600", timeout_s=0.6)
    executor = bench.executor()
    await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        await _kill_shim(bench.stem(work))
        nursery.cancel_scope.cancel()
    ending = await bench.attach(work)
    assert (ending.cause, ending.exit.reason) == (Cause.TIMEOUT, "deadline")
    assert (ending.exit.survivors, bench.tagged(work)) == (0, [])


async def test_a_child_without_its_shim_can_be_stopped(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(STUBBORN)
    executor = bench.executor()
    await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        await _kill_shim(bench.stem(work))
        assert await executor.stop(bench.lease(work)) == 0
    assert bench.tagged(work) == []


async def test_killed_in_the_middle_is_dead_and_concluded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo start; sleep 600")
    stem = bench.stem(work)
    await _leave_dead(bench, work)
    found = await bench.executor().find(bench.lease(work))
    assert isinstance(found, SeenDead)
    ending = await bench.attach(work)
    assert (ending.cause, ending.exit.reason) == (Cause.CRASH, "shim_lost")
    stem.work.unlink()  # not synced: a power cut may take it
    assert isinstance(await bench.executor().find(bench.lease(work)), SeenDead)
    assert (await bench.attach(work)).cause is Cause.CRASH


async def test_after_a_restart_of_the_machine_no_pid_means_anything(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo start; sleep 600")
    await _leave_dead(bench, work)
    stem = bench.stem(work)
    record = stem.read_shim()
    assert record is not None
    # The pids of the record are this very process's, under another boot.
    me = LocalHost().this_process()
    text = stem.shim.read_text().replace(record.boot_id, "another-boot")
    for identity in (record.shim, record.child):
        text = text.replace(_json(identity), _json(me))
    stem.shim.write_text(text)
    found = await bench.executor().find(bench.lease(work))
    assert found == SeenDead("the machine was restarted")
    assert await bench.executor().stop(bench.lease(work)) == 0
    assert (await bench.attach(work)).cause is Cause.CRASH


async def test_a_stranger_with_a_reused_pid_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo start; sleep 600")
    await _leave_dead(bench, work)
    stem = bench.stem(work)
    record = stem.read_shim()
    assert record is not None
    with _sleeper() as stranger:
        began = processes.start_time_of(stranger)
        assert began is not None
        earlier = ProcessIdentity(pid=stranger, start_time=began - 1)
        text = stem.shim.read_text()
        for identity in (record.shim, record.child):
            text = text.replace(_json(identity), _json(earlier))
        stem.shim.write_text(text)
        assert isinstance(await bench.executor().find(bench.lease(work)), SeenDead)
        assert await bench.executor().stop(bench.lease(work)) == 0
        await bench.attach(work)
        assert not waiting.signal_if_same(earlier, signal.SIGKILL)
        assert processes.start_time_of(stranger) == began


@contextmanager
def _sleeper() -> Iterator[int]:
    pid = os.posix_spawnp("sleep", ["sleep", "600"], os.environ)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _json(identity: ProcessIdentity) -> str:
    return f'{{"pid":{identity.pid},"start_time":{identity.start_time}}}'


async def _leave_dead(bench: Bench, work: WorkItem) -> None:
    """Driver, shim and child are killed in the middle."""
    executor = bench.executor()
    await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        record = await _kill_shim(bench.stem(work))
        nursery.cancel_scope.cancel()
    while pids := bench.tagged(work):  # what is killed may have forked just before
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    await waiting.wait_for_exit(record.child)
