"""A driver whose run is changed under it: what it still starts, and what it waits for."""

import random
import signal

import pytest
import trio
import trio.testing

from drivers.headless.dispatches import granted
from drivers.headless.messages import Permission, Ready
from drivers.headless.outside import Invocation
from drivers.stages import Errand
from orchestrator.core import pausing, steer
from orchestrator.core.capacity import Capacity
from orchestrator.core.events import SettingsChanged, StageDispatched, TaskChanged
from orchestrator.core.fold import replay
from orchestrator.core.model import Ending, ResultStatus, RunStatus, SessionId, Stage, TaskId
from orchestrator.core.plan import plan
from orchestrator.core.state import RunState
from orchestrator.core.undo import undo
from orchestrator.core.work import dispatched, make_work_item
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import Decide, LiveRun
from tests.fakes.disk import MemoryDisk
from tests.simulation.driving import RUN, drive_once, entries_of, make_run, task
from tests.simulation.world import EPOCH, World, success
from tests.unit.test_decide import HOST, NOW, Run

A, B = TaskId("a"), TaskId("b")


def new_world() -> World:
    return World(rng=random.Random(1), script=lambda rng, world, stage, name, n: success(stage))


async def command(world: World, decide: Decide) -> None:
    """As another process would give it."""
    disk = MemoryDisk(world.file)
    run = await LiveRun.open(FileJournal(disk, RUN))
    await run.commit(decide, now=EPOCH + trio.current_time())
    disk.die()


def pause_b(state: RunState) -> list[TaskChanged | SettingsChanged]:
    return pausing.pause_parts(state, ["b"], [], reason="lunch", by="me")  # type: ignore[return-value]


async def test_a_driver_that_waits_goes_on_with_what_is_let_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = new_world()
    await make_run(world, [task("a"), task("b"), task("c", "b")])
    paused_for_s = 50_000.0

    async def person() -> None:
        await world.until_running(2)
        await command(world, pause_b)
        await trio.sleep(paused_for_s)
        assert not world.running()
        await command(world, lambda s: pausing.unpause_parts(s, ["b"], [], reason="", by="me"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(person)
        end = await drive_once(world)
    entries = await entries_of(world)
    assert end.exit_status == 0
    state = replay(entries)
    assert state.status is RunStatus.COMPLETED
    changes = [entry for entry in entries if isinstance(entry.event, TaskChanged)]
    between = [
        entry.event.task_id
        for entry in entries
        if isinstance(entry.event, StageDispatched) and changes[0].seq < entry.seq < changes[1].seq
    ]
    assert set(between) == {"a"}, "what is paused, and what waits for it, starts nothing"


@pytest.mark.parametrize(
    ("tasks", "lanes", "told"),
    [
        (["b"], [], "paused: b (lunch); go on: orchestrator --run sim unpause --task b"),
        (
            [],
            ["headless:claude"],
            "paused: lane headless:claude; go on: orchestrator --run sim unpause --lane"
            " headless:claude",
        ),
    ],
)
async def test_a_driver_that_does_not_wait_says_what_is_paused(
    autojump_clock: trio.testing.MockClock, tasks: list[str], lanes: list[str], told: str
) -> None:
    world = new_world()
    await make_run(world, [task("a"), task("b")])
    await command(world, lambda s: pausing.pause_parts(s, tasks, lanes, reason="lunch", by="me"))
    end = await drive_once(world, invocation=Invocation(wait=False))
    assert (end.exit_status, end.reason) == (3, told)
    state = replay(await entries_of(world))
    if tasks:
        assert state.tasks[A].status == "completed"
    else:
        assert {each.stage for each in state.tasks.values()} == {Stage.SCOPE}


async def test_a_driver_that_waits_for_a_person_can_be_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = new_world()
    await make_run(world, [task("b")])
    await command(world, pause_b)
    send, receive = trio.open_memory_channel[int](1)
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            await trio.sleep(1000)
            await send.send(signal.SIGTERM)

        nursery.start_soon(strike)
        end = await drive_once(world, signals=receive)
    assert (end.exit_status, world.starts) == (143, {})


async def test_the_rest_of_a_run_that_waits_can_be_paused_and_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = new_world()
    await make_run(world, [task("b")])
    await command(world, pause_b)

    async def person() -> None:
        await trio.sleep(100)
        await command(world, lambda s: steer.stop(s, how="drain", by="me"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(person)
        end = await drive_once(world)
    assert (end.exit_status, world.starts) == (3, {})


def test_what_was_made_ready_before_a_model_was_changed_is_made_anew() -> None:
    run = Run(task("a"))
    run.end(Ending(status=ResultStatus.SUCCESS), A)
    start = plan(run.state, now=NOW, capacity=Capacity(limit=1)).starts[0]
    work = make_work_item(
        run.state, start, new_session=SessionId("s"), run_dir="/d", directory="/w", now=NOW
    )
    event = dispatched(work, run.state, host=HOST, tree_before="")
    ready = [Ready(Errand(start=start, work=work, event=event), Permission())]
    assert granted(run.state, ready, [start]) == [event]
    for pairs in ({"models.scope": "opus"}, {"efforts.default": "max"}):
        run.add(*steer.change_settings(run.state, pairs, by="me"))
        assert granted(run.state, ready, [start]) == []
        run.add(*undo(run.state, 1, by="me"))
    run.add(*steer.change_task(run.state, "a", {"priority": "3"}, by="me"))
    assert granted(run.state, ready, [start]) == [event]
