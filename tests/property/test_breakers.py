"""In any order of results: what a breaker is there for does not go on without a pause."""

import random
from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from orchestrator.core.breakers import USD_PER_WORK_MIN, WORKS_MAX, WORKS_MIN
from orchestrator.core.budget import EXPECTED_USD
from orchestrator.core.decide import decide
from orchestrator.core.events import RunPaused, RunUnpaused
from orchestrator.core.fold import fold, replay
from orchestrator.core.model import CallCost, Cause, Ending, Pipeline, Report, ResultStatus
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease, RunState
from tests.property.test_storm import Course
from tests.simulation.driving import task
from tests.unit.test_decide import Run

SUCCESS = Ending(status=ResultStatus.SUCCESS)
ORDERS = st.integers(0, 2**32 - 1)
STEPS_MAX = 60


class Watched(Course):
    """Counts by itself what is let pass: since the run was last let go on."""

    def __init__(self, order: int, told: Settings, tasks: int) -> None:
        names = [task(f"t{i}", pipeline=Pipeline.MICRO) for i in range(tasks)]
        super().__init__(Run(*names, settings=told), told.max_concurrent, order)
        self.costs: list[tuple[float, float]] = []
        """(USD, expected USD) of each attempt, one call each."""
        self.idle: list[str] = []
        self.pauses: list[RunPaused] = []
        self.is_canary_due = False

    def step(self, ending: Callable[[Lease], Ending]) -> bool:
        """Start all that is due, and let one end.  False: there is nothing to do any more."""
        run = self.run
        if run.state.paused is not None and not run.state.in_flight:
            run.add(RunUnpaused())
            self.costs, self.idle = [], []
        for start in self.due():
            run.dispatch(start.task_id)
            models = [each for each in run.state.in_flight.values() if is_model(each)]
            assert not (self.is_canary_due and len(models) > 1), "one goes first"
        if not run.state.in_flight:
            cooling = [item[0] for item in run.state.cooling]
            self.now = max(self.now, min(cooling, default=self.now)) + 1.0
            return bool(cooling)
        lease = run.state.in_flight[self.rng.choice(sorted(run.state.in_flight))]
        self.now += 1.0
        run.now = self.now
        was_paused = run.state.paused is not None
        report = Report(work_item_id=lease.work_item_id, content_hash="h", ending=ending(lease))
        events = decide(run.state, report, self.now)
        run.add(*events)
        paused = [event for event in events if isinstance(event, RunPaused)]
        assert len(paused) <= 1
        self.pauses += paused
        if is_model(lease) and not was_paused:
            self.count(lease, report.ending)
        self.is_canary_due |= any(pause.breaker for pause in paused)
        return True

    def count(self, lease: Lease, ending: Ending) -> None:
        usd = ending.cost.cost_usd if ending.cost else 0.0
        if usd:
            self.costs.append((usd, EXPECTED_USD[lease.stage]))
        if ending.cause is None:
            self.is_canary_due = False
        is_idle = ending.cause is Cause.CRASH
        self.idle = [*self.idle, lease.task_id] if is_idle else []


def is_model(lease: Lease) -> bool:
    return not lease.stage.is_deterministic


@settings(max_examples=120, deadline=None)
@given(
    ORDERS, st.integers(1, 4), st.sampled_from([1.5, 3.0, 4.0]), st.sampled_from([0.5, 2.0, 6.0])
)
def test_no_more_is_spent_than_the_ratio_allows_without_a_pause(
    order: int, limit: int, ratio: float, dearness: float
) -> None:
    rng = random.Random(order)
    course = Watched(order, Settings(max_concurrent=limit, spend_ratio_max=ratio), 12)

    def some_dear(lease: Lease) -> Ending:
        if lease.stage.is_deterministic:
            return SUCCESS
        usd = EXPECTED_USD[lease.stage] * rng.choice((0.1, 1.0, dearness, 2 * dearness))
        return Ending(status=ResultStatus.SUCCESS, cost=CallCost(cost_usd=usd, output_tokens=9))

    for _ in range(STEPS_MAX):
        if not course.step(some_dear):
            break
        last = course.costs[-WORKS_MAX:]
        spent, expected = sum(u for u, _ in last), sum(e for _, e in last)
        is_over = len(last) >= WORKS_MIN and spent >= max(
            ratio * expected * (1 + 1e-9), USD_PER_WORK_MIN * len(last)
        )
        assert not is_over or course.run.state.paused is not None or course.run.state.is_settled
    assert all(pause.breaker == "spend" for pause in course.pauses)
    assert course.run.state.audit.attempts_spent == 0


@settings(max_examples=120, deadline=None)
@given(ORDERS, st.integers(1, 4), st.integers(1, 5), st.sampled_from([0.3, 0.6, 0.95]))
def test_no_row_of_calls_without_work_goes_on_without_a_pause(
    order: int, limit: int, most: int, share: float
) -> None:
    rng = random.Random(order)
    told = Settings(max_concurrent=limit, zero_work_max=most, storm_tasks_max=99)
    course = Watched(order, told, 5)

    def some_idle(lease: Lease) -> Ending:
        if lease.stage.is_deterministic or rng.random() >= share:
            return SUCCESS
        error = f"in a way of its own: {rng.choice('abcdefgh') * 4}"
        return Ending(status=ResultStatus.FAILURE, cause=Cause.CRASH, error=error)

    for _ in range(STEPS_MAX):
        if not course.step(some_idle):
            break
        if course.run.state.paused is None:
            assert len(course.idle) < most or len(set(course.idle)) == 1
    assert course.run.state.audit.attempts_spent == 0


@settings(max_examples=30, deadline=None)
@given(ORDERS)
def test_wherever_a_driver_is_started_again_it_counts_on(order: int) -> None:
    rng = random.Random(order)
    course = Watched(order, Settings(max_concurrent=3), 6)

    def any_ending(lease: Lease) -> Ending:
        if lease.stage.is_deterministic:
            return SUCCESS
        usd = rng.choice((0.0, 1.0, 30.0))
        cost = CallCost(cost_usd=usd, output_tokens=int(usd)) if usd else None
        cause = rng.choice((None, Cause.CRASH, Cause.WORK_ERROR, Cause.INTERRUPTED))
        if cause is None:
            return Ending(status=ResultStatus.SUCCESS, cost=cost)
        error = rng.choice(("this", "that", "something else"))
        return Ending(status=ResultStatus.FAILURE, cause=cause, error=error, cost=cost)

    for _ in range(STEPS_MAX):
        if not course.step(any_ending):
            break
    entries = course.run.entries
    cut = rng.randint(1, len(entries))
    state: RunState = replay(entries[:cut])
    for entry in entries[cut:]:
        state = fold(state, entry)
    assert state.breakers == course.run.state.breakers
    assert state.canary == course.run.state.canary
