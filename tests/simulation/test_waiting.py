"""What time alone is waited for is told once, with until when: a silent log has its why."""

import random

import trio.testing

from drivers.headless.outside import Invocation
from orchestrator.core.events import WindowObserved
from orchestrator.core.model import Cause, Ending, Pipeline, Stage, Window
from orchestrator.core.settings import Settings
from orchestrator.views.moments import clock
from tests.simulation.driving import drive_once, make_run, task
from tests.simulation.test_run_loop import all_succeed
from tests.simulation.world import EPOCH, Quiet, World, failure, success

HOUR_S = 3600.0
FULL = Window(name="five_hour", utilization=0.95, resets_at=EPOCH + HOUR_S, observed_at=EPOCH)


def told(heard: Quiet) -> list[dict[str, object]]:
    return [values for event, values in heard.said if event == "waiting"]


async def test_a_full_window(autojump_clock: trio.testing.MockClock) -> None:
    world = World(rng=random.Random(1), script=all_succeed)
    full = WindowObserved(windows=(FULL,), account="claude")
    await make_run(world, [task("a"), task("b"), full])
    end = await drive_once(world, audience=(heard := Quiet()))
    assert end.exit_status == 0
    (wait,) = told(heard)
    assert wait["until"] == clock(EPOCH + HOUR_S)
    assert wait["limited_by"] == "usage_window:five_hour"


async def test_an_outage_is_told_with_each_of_its_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def twice_out(
        rng: random.Random, world: World, stage: Stage, task_id: str, attempt: int
    ) -> Ending:
        tried.append(stage)
        is_out = tried.count(Stage.IMPLEMENT) in (1, 2) and stage is Stage.IMPLEMENT
        return failure(Cause.OUTAGE, "529") if is_out else success(stage)

    tried: list[Stage] = []
    world = World(rng=random.Random(1), script=twice_out)
    settings = Settings(outage_delay_s=60.0)
    await make_run(world, [task("a", pipeline=Pipeline.MICRO)], settings)
    heard = Quiet()
    end = await drive_once(world, invocation=Invocation(wait=True), audience=heard)
    assert end.exit_status == 0
    waits = [int(str(wait["seconds"])) for wait in told(heard)]
    assert [60 <= waits[0] <= 75, 120 <= waits[1] <= 150, len(waits)] == [True, True, 2]
