"""The run loop and money: it stops at the budget, says what is missing, and goes on with more."""

import random

import pytest
import trio.testing

from drivers.headless.outside import Invocation
from orchestrator.core import steer
from orchestrator.core.events import BudgetReserved, KnownEvent, RunPaused, StageDispatched
from orchestrator.core.fold import replay
from orchestrator.core.model import CallCost, Cause, Ending, RunStatus, Stage, TaskId
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from tests.fakes.disk import MemoryDisk
from tests.simulation.driving import RUN, drive_once, entries_of, make_run, task
from tests.simulation.world import EPOCH, World, failure, success


def spends(usd: float) -> World:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        return success(stage, cost_usd=usd)

    return World(rng=random.Random(1), script=script)


async def steered(world: World, *events: KnownEvent) -> None:
    run = await LiveRun.open(FileJournal(MemoryDisk(world.file), RUN))
    await run.commit(lambda _: events, now=EPOCH)


async def state_of(world: World) -> RunState:
    return replay(await entries_of(world))


async def test_at_the_budget_the_run_pauses_and_says_what_is_missing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = spends(0.5)
    await make_run(world, [task("a"), task("b")], Settings(budget_usd=2.0, max_concurrent=1))
    end = await drive_once(world)
    state = await state_of(world)
    assert (end.exit_status, state.status) == (3, RunStatus.PAUSED)
    assert state.totals.cost_usd == 2.0
    assert state.in_flight == {}
    reason = (
        "budget: 2.00 of 2.00 USD are spent, too little is left for another stage, which "
        "reserves 0.01 USD at least; to finish takes "
        "about 1.00 USD more, by what its stages have cost; raise it: orchestrator --run sim "
        "unpause --raise-budget 3"
    )
    assert state.paused == reason
    assert end.reason == reason

    raised = [*steer.raise_budget(state, "3", by="me"), *steer.unpause(state, by="me")]
    await steered(world, *raised)
    end = await drive_once(world)
    state = await state_of(world)
    assert (end.exit_status, state.status) == (0, RunStatus.COMPLETED)
    assert (state.totals.cost_usd, state.audit.attempts_spent) == (3.0, 0)


async def test_it_is_not_paused_twice_and_not_by_a_driver_that_is_told_to_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = spends(0.5)
    await make_run(world, [task("a")], Settings(budget_usd=0.5))
    await drive_once(world)
    await drive_once(world)
    pauses = [e.event for e in await entries_of(world) if isinstance(e.event, RunPaused)]
    assert [pause.by for pause in pauses] == ["driver"]


async def test_a_task_without_money_of_its_own_stops_no_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    world = spends(0.5)
    await make_run(world, [task("#1"), task("b")], Settings())
    await steered(
        world, *steer.change_task(await state_of(world), "#1", {"budget_usd": "1"}, by="")
    )
    end = await drive_once(world, invocation=Invocation(wait=True))
    state = await state_of(world)
    assert (end.exit_status, state.status) == (3, RunStatus.RUNNING)
    assert state.tasks[TaskId("b")].cost_usd == 1.5
    assert end.reason == (
        "budget: #1 has cost 1.00 of 1.00 USD, raise it: "
        "orchestrator --run sim set --task '#1' budget_usd 2"
    )


async def test_one_that_reaches_its_reservation_is_given_more_and_spends_no_attempt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def script(rng: random.Random, w: World, stage: Stage, task_id: str, attempt: int) -> Ending:
        before = sum(child.stage is stage for child in w.children.values())
        if stage is Stage.IMPLEMENT and before < 3:
            cost = CallCost(cost_usd=4.0 * 2**before)
            return Ending(
                status=failure(Cause.BUDGET).status, cause=Cause.BUDGET, error="more", cost=cost
            )
        return success(stage, cost_usd=0.1)

    world = World(rng=random.Random(1), script=script)
    await make_run(world, [task("a")], Settings(budget_usd=40.0))
    end = await drive_once(world)
    entries = await entries_of(world)
    state = replay(entries)
    assert (end.exit_status, state.audit.attempts_spent) == (0, 0)
    reserved = [
        e.event.usd
        for e in entries
        if isinstance(e.event, BudgetReserved) and "/implement/" in e.event.work_item_id
    ]
    assert reserved == pytest.approx([4.0, 8.0, 16.0, 11.9])  # the last: all that is left
    sessions = {
        e.event.session_id
        for e in entries
        if isinstance(e.event, StageDispatched) and e.event.stage is Stage.IMPLEMENT
    }
    assert len(sessions) == 1
