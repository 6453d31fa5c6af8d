"""The real run loop on a host that has little left: it waits, says so, and goes on by itself."""

import random
from collections.abc import Callable

import pytest
import trio
import trio.testing

from drivers.headless.heartbeat import DriverState, Pulse
from drivers.headless.outside import Invocation, RunEnd
from drivers.headless.room import KEPT_S, PATIENCE_S
from drivers.headless.run_loop import RunLoop
from orchestrator.core.errors import ExitStatus
from orchestrator.core.events import KnownEvent
from orchestrator.core.fold import replay
from orchestrator.core.model import Pipeline, RunStatus
from orchestrator.core.resources import LOOK_AGAIN_S, MB, Resources
from tests.simulation.driving import drive_once, entries_of, make_run, task
from tests.simulation.test_run_loop import all_succeed
from tests.simulation.world import Quiet, World

LITTLE = Resources(memory_available_bytes=600 * MB)
PLENTY = Resources(memory_available_bytes=60_000 * MB)
NO_DISK = Resources(disk_free_bytes=0)


def small_world(stage_s_max: float = 600.0) -> World:
    return World(rng=random.Random(1), script=all_succeed, stage_s_max=stage_s_max)


async def drive_while(
    world: World, change: Callable[[], object], *, at_s: float, wait: bool = True
) -> tuple[RunEnd, Quiet]:
    """Drive, and let something about the world change in the middle."""
    heard = Quiet()
    ends: list[RunEnd] = []
    async with trio.open_nursery() as nursery:

        async def drive() -> None:
            ends.append(await drive_once(world, invocation=Invocation(wait=wait), audience=heard))
            nursery.cancel_scope.cancel()

        nursery.start_soon(drive)
        await trio.sleep(at_s)
        change()
    return ends[0], heard


def three_tasks() -> list[KnownEvent]:
    return [task(name, pipeline=Pipeline.MICRO) for name in "abc"]


async def test_for_want_of_memory_one_runs_and_the_others_when_there_is_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = small_world()
    world.resources = LITTLE
    await make_run(world, three_tasks())
    alone: list[int] = []

    def comes() -> None:
        alone.append(world.running_max)
        world.resources = PLENTY

    async def more_soon() -> None:
        await trio.sleep(1000 + LOOK_AGAIN_S + KEPT_S + 1)
        assert len(world.running()) == 3

    async with trio.open_nursery() as nursery:
        nursery.start_soon(more_soon)
        end, _ = await drive_while(world, comes, at_s=1000)
    assert (end.exit_status, alone) == (0, [1])
    assert replay(await entries_of(world)).status is RunStatus.COMPLETED


async def test_with_wait_a_full_disk_is_waited_out_and_told_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = small_world()
    world.resources = NO_DISK
    await make_run(world, three_tasks())
    end, heard = await drive_while(world, lambda: setattr(world, "resources", PLENTY), at_s=5000)
    assert (end.exit_status, world.running_max) == (0, 3)
    told = [values for event, values in heard.said if event == "waiting for the host"]
    assert told == [{"limited_by": "disk"}]


async def test_without_wait_it_gives_the_host_a_moment_and_then_says_why(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = small_world()
    world.resources = NO_DISK
    await make_run(world, three_tasks())
    end, _ = await drive_while(
        world, lambda: setattr(world, "resources", PLENTY), at_s=PATIENCE_S / 2, wait=False
    )
    assert end.exit_status == 0
    await make_run(other := small_world(), three_tasks())
    other.resources = NO_DISK
    end = await drive_once(other, invocation=Invocation(wait=False))
    assert end.exit_status == ExitStatus.STOPPED
    assert end.reason.startswith("disk: ")
    assert "disk_free_min_mb" in end.reason
    assert other.starts == {}


async def test_what_it_waits_for_is_in_the_heartbeat(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulses: list[Pulse] = []
    tell = RunLoop._tell

    async def telling(loop: RunLoop) -> None:
        await tell(loop)
        pulses.append(loop.pulse())

    monkeypatch.setattr(RunLoop, "_tell", telling)
    world = small_world()
    world.resources = NO_DISK
    await make_run(world, three_tasks())
    await drive_while(world, lambda: setattr(world, "resources", PLENTY), at_s=100)
    first = pulses[0]
    assert (first.state, first.limited_by) == (DriverState.WAITING_ON_CAPACITY, "disk")
    assert (first.dispatch_limit, first.dispatchable, first.wait_until) == (0, 3, None)
    assert "500 MB" in (first.reason or "")
    waiting = [pulse for pulse in pulses if pulse.limited_by == "disk"]
    assert len(waiting) > 30
    assert not any(pulse.differs(first) for pulse in waiting)  # one beat is enough


async def test_places_that_others_hold_are_waited_for_and_taken_one_by_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = small_world()
    world.places = 0
    await make_run(world, three_tasks())
    end, heard = await drive_while(world, lambda: setattr(world, "places", 2), at_s=500)
    assert (end.exit_status, world.running_max) == (0, 2)
    assert [values for event, values in heard.said if event == "waiting for the host"] == [
        {"limited_by": "host_children"}
    ]
    state = replay(await entries_of(world))
    assert state.audit.dispatched == state.audit.recorded == 3 * 4
    assert state.audit.attempts_spent == 0


async def test_a_place_that_is_lost_at_the_last_moment_costs_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The look says that there are some, and whoever asks is refused."""
    world = small_world()
    await make_run(world, three_tasks())
    world.places, world.places_seen = 0, 3
    looks: list[int] = []

    def comes() -> None:
        looks.append(len(world.looks))
        world.places = 3

    end, _ = await drive_while(world, comes, at_s=100)
    assert end.exit_status == 0
    assert 100 / (KEPT_S + LOOK_AGAIN_S) / 2 < looks[0] < 2 * 100 / KEPT_S
    state = replay(await entries_of(world))
    assert (state.audit.dispatched, state.audit.attempts_spent) == (3 * 4, 0)


async def test_a_place_refused_right_after_an_end_is_not_asked_for_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The last look was made when more children were out than there are now."""
    world = small_world(stage_s_max=0.2)
    world.places = world.places_seen = 3
    await make_run(world, three_tasks())

    async def taken_for_a_while() -> None:
        await trio.sleep(0.1)
        world.places = 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(taken_for_a_while)
        end, _ = await drive_while(world, lambda: setattr(world, "places", 3), at_s=50)
    assert end.exit_status == 0
    assert len(world.looks) < 10 * 50 / KEPT_S


async def test_the_host_is_looked_at_seldom_however_much_happens(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = small_world(stage_s_max=0.11)
    await make_run(world, [task(name) for name in "abcdefghijkl"])
    assert (await drive_once(world)).exit_status == 0
    assert len(world.children) == 12 * 6
    assert len(world.looks) <= trio.current_time() / KEPT_S + 2
