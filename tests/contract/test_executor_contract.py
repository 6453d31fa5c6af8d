"""What every Executor promises.  Each adapter, and each fake, is a world of its own.

A world makes work items that behave in a known way, and new executors that stand for the next
driver: an earlier one's run() is cancelled, which is what the death of a driver looks like.
"""

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pytest
import trio

from orchestrator.core.model import Ending, ResultStatus, WorkItem
from orchestrator.core.state import Lease
from orchestrator.ports.execution import (
    Executor,
    Observation,
    ResultSeen,
    SeenAlive,
    SeenDead,
    SeenEnded,
    SeenNothing,
    Started,
)
from tests.e2e.supervision import BOUND_S, Bench, until_there


class Behaviour(StrEnum):
    SUCCEEDS = "says its result and ends"
    HOLDS = "goes on until it is released, then succeeds"
    LINGERS = "says its result and does not end"
    ENDS_SILENTLY = "ends without a result"


class World(Protocol):
    def executor(self) -> Executor:
        """Another driver's."""
        ...

    def work(self, behaviour: Behaviour) -> WorkItem: ...

    def lease(self, work: WorkItem) -> Lease: ...

    def release(self, work: WorkItem) -> None: ...

    async def kill(self, work: WorkItem) -> None:
        """Everything of it at once, without a trace: what a power cut does."""
        ...


class SupervisedWorld:
    """Real processes under real shims."""

    def __init__(self, root: Path) -> None:
        self._bench = Bench(root)
        self._works = 0

    def executor(self) -> Executor:
        return self._bench.executor()

    def work(self, behaviour: Behaviour) -> WorkItem:
        self._works += 1
        source = {
            Behaviour.SUCCEEDS: "echo RESULT",
            Behaviour.HOLDS: f"until [ -e go-{self._works} ]; do sleep 0.01; done; echo RESULT",
            Behaviour.LINGERS: "echo RESULT; sleep 600",
            Behaviour.ENDS_SILENTLY: "exit 1",
        }[behaviour]
        return self._bench.shell(source, dispatch=self._works)

    def lease(self, work: WorkItem) -> Lease:
        return self._bench.lease(work)

    def release(self, work: WorkItem) -> None:
        (self._bench.root / f"go-{work.dispatch}").touch()

    async def kill(self, work: WorkItem) -> None:
        record = self._bench.stem(work).read_shim()
        assert record is not None
        # The shim first: of a child's end alone it would tell.
        for pid in (record.shim.pid, *self._bench.tagged(work)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until_there(lambda: not self._bench.tagged(work))


WORLDS: list[Callable[[Path], World]] = [SupervisedWorld]


@pytest.fixture(params=WORLDS, ids=lambda made: made.__name__)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made: World = request.param(tmp_path)
    return made


async def _run(world: World, work: WorkItem) -> tuple[Ending, list[Observation]]:
    executor = world.executor()
    seen: list[Observation] = []
    await executor.prepare(work)
    with trio.fail_after(BOUND_S):
        return await executor.run(work, seen.append), seen


@asynccontextmanager
async def _running(world: World, work: WorkItem) -> AsyncIterator[list[Ending]]:
    """A driver that runs it; it dies at the end of the block, if it has not returned by then."""
    executor = world.executor()
    started = trio.Event()
    endings: list[Ending] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, Started):
            started.set()

    async def run() -> None:
        endings.append(await executor.run(work, observe))

    await executor.prepare(work)
    with trio.fail_after(BOUND_S):
        async with trio.open_nursery() as driver:
            driver.start_soon(run)
            await started.wait()
            yield endings
            driver.cancel_scope.cancel()


async def _attach(world: World, work: WorkItem) -> Ending:
    with trio.fail_after(BOUND_S):
        return await world.executor().attach(world.lease(work), lambda _: None)


async def test_a_result_is_an_ending(world: World) -> None:
    ending, seen = await _run(world, world.work(Behaviour.SUCCEEDS))
    assert (ending.status, ending.cause) == (ResultStatus.SUCCESS, None)
    assert ending.ended_at >= ending.started_at > 0
    assert ending.exit.survivors == 0
    assert [type(one) for one in seen] == [Started, ResultSeen]


async def test_no_result_is_an_ending_with_a_cause(world: World) -> None:
    ending, seen = await _run(world, world.work(Behaviour.ENDS_SILENTLY))
    assert ending.status is not ResultStatus.SUCCESS
    assert ending.cause is not None
    assert ending.error != ""
    assert not any(isinstance(one, ResultSeen) for one in seen)


async def test_a_child_that_lingers_after_its_result_has_succeeded(world: World) -> None:
    ending, _ = await _run(world, world.work(Behaviour.LINGERS))
    assert ending.status is ResultStatus.SUCCESS
    assert ending.exit.survivors == 0


async def test_prepared_is_not_started(world: World) -> None:
    work = world.work(Behaviour.SUCCEEDS)
    assert await world.executor().find(world.lease(work)) == SeenNothing()
    executor = world.executor()
    await executor.prepare(work)
    await executor.discard(work)
    assert await world.executor().find(world.lease(work)) == SeenNothing()
    ending, _ = await _run(world, work)
    assert ending.status is ResultStatus.SUCCESS


async def test_a_cancelled_run_lets_go_and_the_next_driver_takes_it_up(world: World) -> None:
    work = world.work(Behaviour.HOLDS)
    async with _running(world, work) as endings:
        assert await world.executor().find(world.lease(work)) == SeenAlive()
    assert endings == []
    assert await world.executor().find(world.lease(work)) == SeenAlive()
    world.release(work)
    ending = await _attach(world, work)
    assert ending.status is ResultStatus.SUCCESS
    assert await world.executor().find(world.lease(work)) == SeenEnded()


async def test_a_cancelled_attach_lets_go_as_well(world: World) -> None:
    work = world.work(Behaviour.HOLDS)
    async with _running(world, work):
        pass
    with trio.move_on_after(0.05):
        await _attach(world, work)
    assert await world.executor().find(world.lease(work)) == SeenAlive()
    world.release(work)
    assert (await _attach(world, work)).status is ResultStatus.SUCCESS


async def test_what_has_ended_is_harvested_however_often(world: World) -> None:
    work = world.work(Behaviour.SUCCEEDS)
    ending, _ = await _run(world, work)
    assert await world.executor().find(world.lease(work)) == SeenEnded()
    assert await _attach(world, work) == ending
    assert await _attach(world, work) == ending


async def test_stopping_ends_it_and_the_run_returns(world: World) -> None:
    work = world.work(Behaviour.HOLDS)
    async with _running(world, work) as endings:
        assert await world.executor().stop(world.lease(work)) == 0
        while not endings:  # noqa: ASYNC110 - run() returns after stop() has
            await trio.sleep(0.001)
    assert endings[0].status is not ResultStatus.SUCCESS
    assert endings[0].exit.reason == "stopped"
    assert await world.executor().find(world.lease(work)) == SeenEnded()


async def test_stopping_what_has_ended_does_nothing(world: World) -> None:
    work = world.work(Behaviour.SUCCEEDS)
    ending, _ = await _run(world, work)
    assert await world.executor().stop(world.lease(work)) == 0
    assert await _attach(world, work) == ending


async def test_what_was_killed_in_the_middle_is_dead(world: World) -> None:
    work = world.work(Behaviour.HOLDS)
    async with _running(world, work):
        pass
    await world.kill(work)
    found = await world.executor().find(world.lease(work))
    assert isinstance(found, SeenDead)
    assert found.reason != ""
    ending = await _attach(world, work)
    assert ending.status is not ResultStatus.SUCCESS
    assert ending.cause is not None
