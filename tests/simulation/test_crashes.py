"""Kill the driver anywhere, many times: nothing is lost, doubled or left behind.

One seed is one run with its DAG, its results and its kills.  A failure names its seed:
``pytest "tests/simulation/test_crashes.py::test_seed[N]"``.
"""

import random
from collections.abc import Callable, Iterator

import pytest
import trio
import trio.testing

from orchestrator.core.events import (
    DispatchReclaimed,
    KnownEvent,
    RunFinalized,
    StageDispatched,
    StageRecorded,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import Cause, Ending, Pipeline, Stage
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from tests.fakes.disk import MemoryDisk
from tests.simulation.driving import drive_once, entries_of, make_run, task
from tests.simulation.world import EPOCH, Killed, World, failure, success

SEEDS = 60
DRIVERS_MAX = 60
LIMIT = 3

_WORK = (Cause.INVALID_OUTPUT, Cause.TIMEOUT, Cause.WORK_ERROR)
_NOT_SPENT = (Cause.CRASH, Cause.LIMIT, Cause.OUTAGE)


def script(rng: random.Random, world: World, stage: Stage, task_id: str, attempt: int) -> Ending:
    roll = rng.random()
    if roll < 0.10 and not stage.is_deterministic:
        return failure(rng.choice(_WORK), f"error {rng.random()}")
    if roll < 0.16 and stage is Stage.TEST:
        return failure(Cause.TESTS_FAILED, f"fails {rng.random()}")
    if roll < 0.22 and not stage.is_deterministic:
        resets_at = EPOCH + trio.current_time() + rng.uniform(1, 4000)
        return failure(rng.choice(_NOT_SPENT), resets_at=resets_at)
    return success(stage, cost_usd=rng.uniform(0.01, 0.5))


def dag(rng: random.Random) -> list[KnownEvent]:
    names = [f"t{i}" for i in range(6)]
    return [
        task(
            name,
            *rng.sample(names[:i], k=rng.randint(0, min(2, i))),
            pipeline=rng.choice([*Pipeline]),
        )
        for i, name in enumerate(names)
    ]


class DyingDisk(MemoryDisk):
    """Ends its driver at the n-th append: before it, in the middle of it, or after it."""

    def __init__(self, world: World, rng: random.Random, appends: int) -> None:
        super().__init__(world.file)
        self._world = world
        self._rng = rng
        self._left = appends

    async def append(self, data: bytes) -> int:
        self._left -= 1
        if self._left > 0:
            return await super().append(data)
        roll = self._rng.random()
        if roll < 0.4:
            self.file.data += data[: self._rng.randrange(len(data))]
        elif roll < 0.7:
            await super().append(data)
        raise Killed


def kills(
    world: World, rng: random.Random
) -> Iterator[tuple[MemoryDisk, float, Callable[[str], None]]]:
    for _ in range(DRIVERS_MAX):
        at_append = rng.choice([rng.randint(1, 12), 10_000])
        at_time = rng.choice([rng.uniform(0.0, 900.0), 1e9])
        countdown = [rng.choice([rng.randint(1, 25), 10_000])]

        def strike(where: str, countdown: list[int] = countdown) -> None:
            countdown[0] -= 1
            if countdown[0] == 0:
                raise Killed

        yield DyingDisk(world, rng, at_append), at_time, strike


async def live_through(world: World, rng: random.Random) -> int:
    """Drive until a driver ends by itself; returns how many drivers it took."""
    for number, (disk, at_time, strike) in enumerate(kills(world, rng), start=1):
        if await lives(world, disk, at_time, strike):
            return number
        if rng.random() < 0.3 and world.running():
            rng.choice(world.running()).end_now()
        await trio.sleep(rng.uniform(0.0, 300.0))
    await drive_once(world)
    return DRIVERS_MAX + 1


async def lives(
    world: World, disk: MemoryDisk, at_time: float, strike: Callable[[str], None]
) -> bool:
    """One driver; False where it was killed."""
    killed = False
    with trio.move_on_after(at_time) as scope:
        try:
            await drive_once(world, disk=disk, spawn_kill=strike)
        except* Killed:
            killed = True
    return not killed and not scope.cancelled_caught


async def check(world: World, state: RunState) -> None:
    entries = await entries_of(world)
    assert state.is_settled or state.paused is not None
    assert world.running() == []
    assert world.running_max <= LIMIT, "more children than the limit"
    dispatched = [e.event for e in entries if isinstance(e.event, StageDispatched)]
    recorded = [e.event.work_item_id for e in entries if isinstance(e.event, StageRecorded)]
    assert len(recorded) == len(set(recorded)), "recorded twice"
    assert set(world.children) <= {d.work_item_id for d in dispatched}, "started without intent"
    assert set(recorded) == set(world.children), "a result is lost"
    spent = sum(child.cost_usd for child in world.children.values())
    assert state.totals.cost_usd == pytest.approx(spent), "the ledger does not add up"
    assert state.audit.attempts_spent == sum(
        e.event.outcome in {"retry", "sent_back"}
        for e in entries
        if isinstance(e.event, StageRecorded)
    )
    for entry in entries:
        if isinstance(entry.event, StageRecorded) and entry.event.cause in _NOT_SPENT:
            assert entry.event.outcome in {"again", "failed"}
    assert state.audit.dispatched == state.audit.recorded + state.audit.redispatched


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_seed(autojump_clock: trio.testing.MockClock, seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng=rng, script=script)
    await make_run(world, dag(rng), Settings(max_concurrent=LIMIT, failing_tasks_max=100))
    await live_through(world, rng)
    entries = await entries_of(world)
    await check(world, replay(entries))


async def test_the_kills_really_strike(autojump_clock: trio.testing.MockClock) -> None:
    """Over the seeds, every way of taking a dispatch up again occurs, and drivers die a lot."""
    hows: set[str] = set()
    drivers = 0
    for seed in range(25):
        rng = random.Random(seed)
        world = World(rng=rng, script=script)
        await make_run(world, dag(rng), Settings(max_concurrent=LIMIT, failing_tasks_max=100))
        drivers += await live_through(world, rng)
        entries = await entries_of(world)
        events = [e.event for e in entries]
        hows |= {e.how for e in events if isinstance(e, DispatchReclaimed)}
        is_over = replay(entries).paused is None
        assert sum(isinstance(e, RunFinalized) for e in events) == is_over
    assert hows == {"adopted", "harvested", "resumed", "redispatched"}
    assert drivers > 100
