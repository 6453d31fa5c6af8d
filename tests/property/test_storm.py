"""In any order: a storm costs nothing and ends nothing; a single task's own trouble still ends."""

import random
from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import decide
from orchestrator.core.events import RunUnpaused
from orchestrator.core.follows import FOLLOWS, Follow
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    Pipeline,
    Report,
    ResultStatus,
    Stage,
    TaskId,
    TaskStatus,
)
from orchestrator.core.plan import StartStage, plan
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease
from orchestrator.core.storm import ABOUT_THE_WORK
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run

WORKED = CallCost(cost_usd=0.01, output_tokens=100)
SUCCESS = Ending(status=ResultStatus.SUCCESS)
SUSPECTS = sorted(
    cause
    for cause in set(Cause) - ABOUT_THE_WORK
    if FOLLOWS[Stage.IMPLEMENT, cause] is not Follow.HOLD
)
NEVER_PAUSES = {
    cause
    for cause in SUSPECTS
    if FOLLOWS[Stage.IMPLEMENT, cause] in {Follow.WAIT_LIMIT, Follow.WAIT_OUTAGE}
} | {Cause.INTERRUPTED}
ENDS = [
    cause
    for cause in SUSPECTS
    if cause not in NEVER_PAUSES and FOLLOWS[Stage.IMPLEMENT, cause] is not Follow.PAUSE
]
STEPS_MAX = 150

causes = st.sampled_from(SUSPECTS)
orders = st.integers(0, 2**32 - 1)
limits = st.integers(1, 4)
pipelines = st.sampled_from(Pipeline)


class Course:
    """A run that is driven as its plan says; ``order`` says which child ends next, and when."""

    def __init__(self, run: Run, limit: int, order: int) -> None:
        self.run = run
        self.limit = limit
        self.rng = random.Random(order)
        self.now = NOW

    def due(self) -> tuple[StartStage, ...]:
        return plan(self.run.state, now=self.now, capacity=Capacity(limit=self.limit)).starts

    def go_on(self, ending: Callable[[Lease], Ending]) -> None:
        """Until nothing starts and nothing is out any more."""
        run = self.run
        for _ in range(STEPS_MAX):
            for start in self.due():
                run.dispatch(start.task_id)
            if not run.state.in_flight:
                wake_at = plan(run.state, now=self.now, capacity=Capacity(limit=self.limit)).wake_at
                if wake_at is None:
                    return
                self.now = wake_at
                continue
            task_id = self.rng.choice(sorted(run.state.in_flight))
            lease = run.state.in_flight[task_id]
            self.now += self.rng.choice((0.0, 1.0, 60.0))
            run.now = self.now
            report = Report(work_item_id=lease.work_item_id, content_hash="h", ending=ending(lease))
            run.add(*decide(run.state, report, self.now))


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 7), st.booleans(), limits, causes, pipelines, orders)
def test_a_storm_costs_nothing_and_ends_nothing(
    size: int, chained: bool, limit: int, cause: Cause, pipeline: Pipeline, order: int
) -> None:
    tasks = [task(f"t{i}", pipeline=pipeline) for i in range(size)]
    if chained:
        tasks += [task(f"u{i}", f"t{i}", pipeline=pipeline) for i in range(size)]
    run = Run(*tasks, settings=Settings(max_concurrent=limit))
    course = Course(run, limit, order)

    def stormy(lease: Lease) -> Ending:
        if lease.stage.is_deterministic:
            return SUCCESS
        return Ending(
            status=ResultStatus.FAILURE, cause=cause, error=f"gone, id {lease.dispatched_at}"
        )

    course.go_on(stormy)
    assert run.state.audit.attempts_spent == 0
    assert not [t.id for t in run.state.tasks.values() if t.status.is_terminal]
    assert (run.state.paused is None) == (cause in NEVER_PAUSES)
    if run.state.paused is not None:
        run.add(RunUnpaused())
        models = [start for start in course.due() if not start.stage.is_deterministic]
        assert len(models) <= 1, "one canary goes first"
        course.go_on(lambda lease: SUCCESS)
        assert {t.status for t in run.state.tasks.values()} == {TaskStatus.COMPLETED}
        assert run.state.audit.attempts_spent == 0


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 6), limits, st.sampled_from(ENDS), pipelines, orders)
def test_one_tasks_own_trouble_ends_it_and_nothing_else(
    others: int, limit: int, cause: Cause, pipeline: Pipeline, order: int
) -> None:
    tasks = [task(f"t{i}", pipeline=pipeline) for i in range(others)]
    rng = random.Random(order)
    tasks.insert(rng.randint(0, others), task("bad", pipeline=pipeline))
    run = Run(*tasks, settings=Settings(max_concurrent=limit))
    course = Course(run, limit, order)
    stage = rng.choice([s for s in pipeline.stages if not s.is_deterministic])

    def one_bad(lease: Lease) -> Ending:
        if lease.task_id != "bad" or lease.stage is not stage:
            return SUCCESS
        return Ending(status=ResultStatus.FAILURE, cause=cause, error="its own", cost=WORKED)

    course.go_on(one_bad)
    outcomes = {t.id: t.status for t in run.state.tasks.values()}
    assert run.state.paused is None
    assert outcomes.pop(TaskId("bad")) is TaskStatus.FAILED
    assert set(outcomes.values()) <= {TaskStatus.COMPLETED}
