"""The real run loop on a mock clock: what it does with results, kills, limits and stops."""

import errno
import random
import signal
from itertools import pairwise

import msgspec
import pytest
import trio
import trio.testing

from drivers.headless.outside import Invocation
from orchestrator.core.errors import EnvironmentFault, ExitStatus
from orchestrator.core.events import (
    ChildAdopted,
    ChildStarted,
    CooldownStarted,
    DispatchReclaimed,
    RetryScheduled,
    RunPaused,
    StageDispatched,
    StageRecorded,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import (
    Cause,
    Ending,
    Outcome,
    Pipeline,
    RunStatus,
    Stage,
    TaskId,
    TaskStatus,
)
from orchestrator.core.settings import Settings
from tests.simulation.driving import drive_once, entries_of, make_run, task
from tests.simulation.world import EPOCH, HOST, Quiet, Script, World, failure, success
from tests.unit.cli.runs import dispatched


def world_of(script: Script, seed: int = 1) -> World:
    return World(rng=random.Random(seed), script=script)


def all_succeed(
    rng: random.Random, world: World, stage: Stage, task_id: str, attempt: int
) -> Ending:
    return success(stage, cost_usd=0.01)


async def test_a_dag_runs_to_its_end_within_the_limit(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_of(all_succeed)
    await make_run(world, [task("a"), task("b", "a"), task("c"), task("d", "b", "c"), task("e")])
    end = await drive_once(world, invocation=Invocation(max_concurrent=2))
    state = replay(await entries_of(world))
    assert (end.exit_status, state.status) == (0, RunStatus.COMPLETED)
    assert world.running_max == 2
    assert len(world.children) == 5 * 6
    assert state.totals.cost_usd == pytest.approx(5 * 3 * 0.01)
    order = [
        (e.event.task_id, e.event.stage)
        for e in await entries_of(world)
        if isinstance(e.event, StageDispatched)
    ]
    assert order.index((TaskId("d"), Stage.INTAKE)) > order.index((TaskId("b"), Stage.REVIEW))


async def test_children_of_a_model_start_one_after_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_of(all_succeed)
    world.stage_s_max = 0.1
    await make_run(world, [task(name) for name in "abcd"], Settings(start_gap_s=1.0))
    end = await drive_once(world, invocation=Invocation(max_concurrent=4))
    assert end.exit_status == 0
    starts = [
        (e.event.stage, e.ts)
        for e in await entries_of(world)
        if isinstance(e.event, StageDispatched)
    ]
    assert len({ts for stage, ts in starts if stage is Stage.INTAKE}) == 1
    models = [ts for stage, ts in starts if not stage.is_deterministic]
    gaps = [later - earlier for earlier, later in pairwise(models)]
    assert min(gaps) >= 0.999


async def test_a_machine_that_is_short_for_a_moment_costs_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Before a start and after an end: nothing is given up, and nothing is done twice."""

    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if stage in {Stage.INTAKE, Stage.IMPLEMENT}:
            w.starved_until = trio.current_time() + 20
        return success(stage)

    world = world_of(script)
    await make_run(world, [task("a"), task("b")])
    end = await drive_once(world)
    state = replay(await entries_of(world))
    assert (end.exit_status, state.status) == (0, RunStatus.COMPLETED)
    assert state.audit.dispatched == state.audit.recorded == 2 * 6


async def test_a_machine_that_stays_short_ends_the_driver_and_no_task(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_of(all_succeed)
    world.starved_until = trio.current_time() + 3600
    await make_run(world, [task("a")])
    began = trio.current_time()
    with pytest.raises(ExceptionGroup) as ended:
        await drive_once(world)
    assert ended.group_contains(EnvironmentFault, match="ulimit -u")
    assert trio.current_time() - began > 120
    state = replay(await entries_of(world))
    assert state.tasks[TaskId("a")].status is TaskStatus.RUNNING
    world.starved_until = 0.0
    assert (await drive_once(world)).exit_status == 0


async def test_a_full_disk_ends_the_driver_and_no_task_and_is_said_to_be_where(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is written to an open file names none in its error."""

    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return success(stage)

    world, is_full = world_of(script), True
    await make_run(world, [task("a")])
    with pytest.raises(ExceptionGroup) as ended:
        await drive_once(world)
    where = "writing to /run, or to a worktree: No space left on device; free some space there"
    assert ended.group_contains(EnvironmentFault, match=where)
    is_full = False
    assert (await drive_once(world)).exit_status == 0
    assert replay(await entries_of(world)).audit.attempts_spent == 0


async def test_what_is_in_the_way_of_one_task_holds_it_and_stops_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if (task_id, stage) == ("a", Stage.INTAKE):
            return failure(Cause.MISCONFIGURED, "the branch 'x' blocks it: rename it")
        return success(stage)

    world = world_of(script)
    await make_run(world, [task("a"), task("b"), task("c", "a")])
    end = await drive_once(world)
    state = replay(await entries_of(world))
    assert (end.exit_status, state.paused) == (ExitStatus.STOPPED, None)
    assert state.tasks[TaskId("a")].status is TaskStatus.HELD
    assert "rename it" in (state.tasks[TaskId("a")].reason or "")
    assert state.tasks[TaskId("b")].status is TaskStatus.COMPLETED
    assert state.tasks[TaskId("c")].status is TaskStatus.WAITING
    assert state.audit.attempts_spent == 0


async def test_tests_that_fail_send_implement_back_with_what_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        implements = sum(c.stage is Stage.IMPLEMENT for c in w.children.values())
        if stage is Stage.TEST and implements == 1:
            return failure(Cause.TESTS_FAILED, "2 tests fail")
        return success(stage)

    world = world_of(script)
    await make_run(world, [task("a")])
    end = await drive_once(world)
    assert end.exit_status == 0
    entries = await entries_of(world)
    (retry,) = [e.event for e in entries if isinstance(e.event, RetryScheduled)]
    assert (retry.stage, retry.attempt, retry.spends_attempt) == (Stage.IMPLEMENT, 2, True)
    assert "2 tests fail" in retry.learnings
    sessions = {
        e.event.session_id
        for e in entries
        if isinstance(e.event, StageDispatched) and e.event.stage in {Stage.SCOPE, Stage.IMPLEMENT}
    }
    assert len(sessions) == 1


async def test_the_same_failure_twice_ends_the_task_and_blocks_what_depends_on_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if task_id == "a" and stage is Stage.TEST:
            return failure(Cause.TESTS_FAILED, "test_x fails")
        return success(stage)

    world = world_of(script)
    await make_run(world, [task("a"), task("b", "a"), task("c", "b"), task("d")])
    end = await drive_once(world)
    state = replay(await entries_of(world))
    assert end.exit_status == 6
    assert {t.id: t.status for t in state.tasks.values()} == {
        "a": TaskStatus.FAILED,
        "b": TaskStatus.CASCADE_BLOCKED,
        "c": TaskStatus.CASCADE_BLOCKED,
        "d": TaskStatus.COMPLETED,
    }
    assert state.tasks[TaskId("a")].attempts[Stage.IMPLEMENT] == 2


async def test_a_limit_is_waited_out_and_spends_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    resets_at = EPOCH + 5000.0
    told: list[str] = []

    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if stage is Stage.IMPLEMENT and task_id not in told:
            told.append(task_id)
            return failure(Cause.LIMIT, "You've hit your limit", resets_at=resets_at)
        return success(stage)

    world = world_of(script)
    world.stage_s_max = 10.0
    await make_run(world, [task("a"), task("b")], Settings(limit_jitter_s=0.0))
    end = await drive_once(world)
    entries = await entries_of(world)
    assert end.exit_status == 0
    assert replay(entries).audit.attempts_spent == 0
    cooldown = next(e for e in entries if isinstance(e.event, CooldownStarted))
    for entry in entries:
        if isinstance(entry.event, StageDispatched) and entry.seq > cooldown.seq:
            assert entry.ts >= resets_at


async def test_without_wait_it_stops_at_the_first_cooldown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        return (
            failure(Cause.LIMIT, resets_at=EPOCH + 9000) if stage is Stage.SCOPE else success(stage)
        )

    world = world_of(script)
    await make_run(world, [task("a")])
    end = await drive_once(world, invocation=Invocation(wait=False))
    assert end.exit_status == 3
    assert trio.current_time() < 9000


async def test_tasks_failing_in_a_row_pause_the_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        if stage is Stage.TEST:
            return failure(Cause.TESTS_FAILED, f"{task_id} fails")
        return success(stage)

    world = world_of(script)
    await make_run(world, [task(name) for name in "abcdefgh"])
    end = await drive_once(world, invocation=Invocation(max_concurrent=1))
    entries = await entries_of(world)
    assert end.exit_status == 3
    assert [e for e in entries if isinstance(e.event, RunPaused)]
    assert replay(entries).counts[TaskStatus.FAILED] == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_detaches_and_the_next_driver_adopts(
    autojump_clock: trio.testing.MockClock, number: signal.Signals
) -> None:
    world = world_of(all_succeed)
    await make_run(world, [task("a"), task("b")])
    send, receive = trio.open_memory_channel[int](1)
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            await world.until_running(2)
            await send.send(number)

        nursery.start_soon(strike)
        end = await drive_once(world, signals=receive)
    assert (end.exit_status, end.signal) == (128 + number, number)
    assert len(world.running()) == 2
    started = len(world.children)
    end = await drive_once(world)
    entries = await entries_of(world)
    assert end.exit_status == 0
    reclaimed = [e.event.how for e in entries if isinstance(e.event, DispatchReclaimed)]
    assert reclaimed == ["adopted", "adopted"]
    assert len([e for e in entries if isinstance(e.event, ChildAdopted)]) == 2
    hosts = [e.event.host for e in entries if isinstance(e.event, ChildStarted)]
    assert len(hosts) >= 12 - 2
    assert set(hosts) == {HOST}
    assert len(world.children) == 2 * 6 > started
    state = replay(entries)
    assert state.audit.dispatched == state.audit.recorded


async def test_each_start_is_said_once_and_by_whoever_started_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_of(all_succeed)
    await make_run(world, [task("a"), task("b")])
    send, receive = trio.open_memory_channel[int](1)
    heard, later = Quiet(), Quiet()
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            await world.until_running(2)
            await trio.sleep(0.5)
            await send.send(signal.SIGTERM)

        nursery.start_soon(strike)
        await drive_once(world, signals=receive, audience=heard)
    await drive_once(world, audience=later)
    first, second = (
        [(v["task"], str(v["stage"])) for event, v in who.said if event == "started"]
        for who in (heard, later)
    )
    assert len(first) + len(second) == len({*first, *second}) == len(world.children) == 12
    entries = await entries_of(world)
    begun = {e.event.work_item_id: e for e in entries if isinstance(e.event, StageDispatched)}
    for entry in entries:
        if isinstance(entry.event, ChildStarted):
            at = entry.event.started_at
            assert begun[entry.event.work_item_id].ts - 1e-3 <= at <= entry.ts + 1e-3


async def test_the_second_interrupt_stops_the_children_and_they_are_resumed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = world_of(all_succeed)
    world.stage_s_max = 5000.0
    await make_run(world, [task("event"), task("b")])  # a name that must not be taken for ours
    send, receive = trio.open_memory_channel[int](2)
    async with trio.open_nursery() as nursery:

        async def strike() -> None:
            await world.until_running(2)
            await send.send(signal.SIGINT)
            await trio.sleep(1)
            await send.send(signal.SIGINT)

        nursery.start_soon(strike)
        heard = Quiet()
        end = await drive_once(world, signals=receive, audience=heard)
    assert end.exit_status == 130
    assert world.running() == []
    told = [event for event, _ in heard.said if event.startswith("interrupted")]
    assert told == [
        "interrupted: waiting up to 10 s for results; Ctrl-C again stops them all",
        "interrupted: stopping what is at work; the next run-headless resumes it",
    ]
    at_work = [values for event, values in heard.said if event == "at work"]
    names = [values["task"] for values in at_work]  # each time in the order of their starts
    assert [sorted(map(str, told)) for told in (names[:2], names[2:])] == [["b", "event"]] * 2
    assert all(values["pid"] and values["stage"] for values in at_work)
    again = [
        e.event.outcome
        for e in await entries_of(world)
        if isinstance(e.event, StageRecorded) and e.event.cause is Cause.INTERRUPTED
    ]
    assert again == [Outcome.AGAIN, Outcome.AGAIN]
    assert (await drive_once(world)).exit_status == 0
    assert replay(await entries_of(world)).audit.attempts_spent == 0


@pytest.mark.parametrize(
    ("wait", "exit_status", "after_s"),
    [(False, ExitStatus.STOPPED, 0), (True, ExitStatus.BLOCKED, 9000)],
)
async def test_what_is_done_by_hand_is_waited_for_as_long_as_its_time(
    autojump_clock: trio.testing.MockClock, *, wait: bool, exit_status: ExitStatus, after_s: float
) -> None:
    world = world_of(all_succeed)
    by_hand = msgspec.structs.replace(
        dispatched("a", "interactive:claude"), host=HOST, timeout_s=9000.0
    )
    await make_run(world, [task("a"), by_hand, task("b", pipeline=Pipeline.MICRO)])
    heard = Quiet()
    end = await drive_once(world, invocation=Invocation(wait=wait), audience=heard)
    state = replay(await entries_of(world))
    assert end.exit_status == exit_status
    told = [values for event, values in heard.said if event.startswith("waiting for")]
    assert told == ([{"tasks": "a"}] if wait else [])
    assert by_hand.work_item_id in end.reason
    assert trio.current_time() >= after_s
    assert state.tasks[TaskId("b")].status is TaskStatus.COMPLETED
    assert list(state.in_flight) == ["a"]
