"""Cancel the driver at every step: nothing is half done, and the next driver brings it to its end.

Cancelling is detaching.  Each step of a trio task ends at an ``await``; before the n-th of them
the whole driver is cancelled, for n = 1, 2, … until it ends by itself.
"""

import pytest
import trio

from drivers.headless.outside import Invocation
from drivers.headless.run_loop import RunLoop
from orchestrator.core.events import DispatchReclaimed, KnownEvent, RunCreated
from orchestrator.core.model import Pipeline
from orchestrator.core.settings import Settings
from orchestrator.journal.scan import Follower
from tests.simulation.clock import run_virtually
from tests.simulation.driver import JOURNAL, PROJECT
from tests.simulation.driving import task
from tests.simulation.story import Audience, Story, begin
from tests.simulation.system import installed
from tests.simulation.witness import Pulse

STEPS_MAX = 5000
WITHIN_S = 600.0
"""Of virtual time: a driver that is cancelled ends, whatever it shields."""


class CancelsAt(trio.abc.Instrument):
    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self.steps_left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            self._scope.cancel()


def batch() -> list[KnownEvent]:
    created = RunCreated(settings=Settings(max_concurrent=2), project=PROJECT)
    return [created, *(task(f"t{i}", pipeline=Pipeline.MICRO) for i in range(2))]


def cancelled_at(step: int, seed: int) -> bool:
    """False: the driver had ended before."""
    story = begin(seed, 2)
    story.allowed = story.conducts = frozenset()
    was_cancelled = False

    async def tell() -> None:
        nonlocal was_cancelled
        story.witness.places = Settings().host_children_max
        story.programs.make_run(batch())
        was_cancelled = await _cut_short(story, step)
        story.is_calm = True
        while story._state().finalized is None:
            end = await story._one_driver()
            story._may_end_so(end)
        await trio.sleep(60)
        story.witness.require_none()
        story.witness.at_the_end(story.witness.judge(story.entries()))

    with installed(story.machine):
        run_virtually(tell, story.machine.clock, seed)
    hows = {e.event.how for e in story.entries() if isinstance(e.event, DispatchReclaimed)}
    assert hows <= {"adopted", "harvested", "redispatched"}, "no child is lost"
    return was_cancelled


async def _cut_short(story: Story, step: int) -> bool:
    machine = story.machine
    process = machine.start("driver")

    def make_audience(loop: RunLoop) -> Audience:
        return Audience(story.witness, loop, process)

    _, signals = trio.open_memory_channel[int](1)
    with trio.CancelScope() as scope:
        cancels = CancelsAt(scope, step)
        trio.lowlevel.add_instrument(cancels)
        began = trio.current_time()
        try:
            await story.programs.drive(
                process, Invocation(wait=True), make_audience, signals, Pulse(story.witness)
            )
        finally:
            trio.lowlevel.remove_instrument(cancels)
    assert trio.current_time() - began < WITHIN_S
    if process.is_alive:
        process.on_death = None
        machine.end(process)
    story.witness.require_none()
    _nothing_is_half_done(story)
    return scope.cancelled_caught


def _nothing_is_half_done(story: Story) -> None:
    files = story.machine.files
    assert not [path for path in files if path.rsplit("/", 1)[-1].startswith(".")], "temporary"
    data = bytes(files[JOURNAL].data)
    follower = Follower(lambda offset, most: data[offset : offset + most], JOURNAL)
    while (batch := follower.next_batch()).entries:
        pass
    assert not batch.torn, "a half-written line"
    alive = list(story.machine.table.values())
    children = [process for process in alive if process.name == "child"]
    shims = {shim.process for shim in story.shims}
    assert all(child.parent in shims and child.parent.is_alive for child in children)


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8)] + [1]
)
def test_cancelled_at_every_step(first: int) -> None:
    """Every seventh step, from ``first`` on."""
    step = first
    while cancelled_at(step, seed=first):
        step += 7
        assert step < STEPS_MAX, "it does not end"
    assert step > 100, "it is cancelled in the middle of its work"
