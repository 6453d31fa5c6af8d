"""What trips a circuit breaker, what does not, and how a run goes on after it."""

from collections.abc import Sequence

import pytest

from drivers.headless.pulse import ONE_GOES_FIRST, pulse_of
from orchestrator.core.breakers import USD_PER_WORK_MIN, WORKS_MAX, WORKS_MIN
from orchestrator.core.budget import EXPECTED_USD
from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import decide
from orchestrator.core.events import (
    CooldownEnded,
    CooldownStarted,
    HistoryLoaded,
    KnownEvent,
    RunPaused,
    RunUnpaused,
    SettingsChanged,
)
from orchestrator.core.experience import KNOWN_MIN
from orchestrator.core.history import Sample
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    Outcome,
    Pipeline,
    Report,
    ResultStatus,
    Stage,
    TaskId,
    TaskStatus,
)
from orchestrator.core.plan import plan
from orchestrator.core.settings import Settings
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run, failing

IMPLEMENT_USD = EXPECTED_USD[Stage.IMPLEMENT]
NAMES = [TaskId(name) for name in "abcdefghijklmnop"]


def cost(usd: float, *, metered: bool = True) -> CallCost:
    return CallCost(cost_usd=usd, metered=metered, output_tokens=100)


def good(usd: float) -> Ending:
    return Ending(status=ResultStatus.SUCCESS, cost=cost(usd))


def run_at(stage: Stage, count: int, **settings: object) -> Run:
    """Of ``count`` tasks, all before that stage, which nothing was spent on."""
    run = Run(
        *(task(name, pipeline=Pipeline.LITE) for name in NAMES[:count]),
        settings=Settings(**settings),  # type: ignore[arg-type]
    )
    for name in NAMES[:count]:
        run.succeed_until(stage, name)
    return run


def pause_of(events: Sequence[KnownEvent]) -> RunPaused | None:
    return next((event for event in events if isinstance(event, RunPaused)), None)


def models_due(run: Run) -> list[TaskId]:
    starts = plan(run.state, now=NOW, capacity=Capacity(limit=20)).starts
    return [start.task_id for start in starts if not start.stage.is_deterministic]


# -- spend ----------------------------------------------------------------------------------------


def spend(run: Run, *usd: float, first: int = 0) -> RunPaused | None:
    """An implement by each task in turn; what the last one led to."""
    events: Sequence[KnownEvent] = ()
    for name, each in zip(NAMES[first:], usd, strict=False):
        assert run.state.paused is None
        events = run.end(good(each), name)
    return pause_of(events)


def test_attempts_that_cost_many_times_what_was_expected_pause_the_run() -> None:
    run = run_at(Stage.IMPLEMENT, 7)
    paused = spend(run, *[4 * IMPLEMENT_USD] * WORKS_MIN)
    assert paused is not None
    assert (paused.breaker, paused.systemic) == ("spend", False)
    assert "the last 5 attempts" in paused.reason
    assert "cost 80.00 USD where 20.00 were expected" in paused.reason
    assert "(implement 80.00 for 20.00)" in paused.reason
    assert "orchestrator --run r set spend_ratio_max 6" in paused.reason
    assert paused.reason.endswith("; then: orchestrator --run r unpause")
    assert run.state.audit.attempts_spent == 0


@pytest.mark.parametrize(
    ("usd", "settings"),
    [
        ([4 * IMPLEMENT_USD - 0.01] * 9, {}),
        ([100 * IMPLEMENT_USD] * (WORKS_MIN - 1), {}),
        ([100 * IMPLEMENT_USD] * 9, {"spend_ratio_max": 0.0}),
        ([100 * IMPLEMENT_USD] * 9, {"spend_ratio_max": 101.0}),
    ],
    ids=["below the ratio", "too few", "off", "another ratio"],
)
def test_no_runaway(usd: list[float], settings: dict[str, float]) -> None:
    run = run_at(Stage.IMPLEMENT, 10, **settings)
    assert spend(run, *usd) is None
    assert run.state.paused is None


def past(usd: float, count: int, model: str = "") -> HistoryLoaded:
    sample = Sample(
        stage=Stage.IMPLEMENT,
        model=model,
        outcome=Outcome.ADVANCED,
        duration_s=60.0,
        cost_usd=usd,
    )
    return HistoryLoaded(samples=(sample,) * count, runs=1)


def test_expected_is_what_past_runs_have_shown() -> None:
    run = run_at(Stage.IMPLEMENT, 7)
    run.add(past(0.5, KNOWN_MIN))
    assert spend(run, *[2.0] * WORKS_MIN) is not None
    run = run_at(Stage.IMPLEMENT, 7)
    run.add(past(20.0, KNOWN_MIN))
    assert spend(run, *[60.0] * WORKS_MIN) is None


def test_a_few_samples_are_filled_up_with_what_is_expected_anywhere() -> None:
    run = run_at(Stage.IMPLEMENT, 7)
    run.add(past(0.5, 1))
    assert spend(run, *[2.0] * WORKS_MIN) is None
    assert run.state.breakers.expected_usd[Stage.IMPLEMENT, ""] == pytest.approx(
        (0.5 + (KNOWN_MIN - 1) * IMPLEMENT_USD) / KNOWN_MIN
    )


def test_a_model_that_is_new_may_be_dearer_than_those_that_are_known() -> None:
    run = run_at(Stage.IMPLEMENT, 7)
    run.add(past(0.1, KNOWN_MIN, "a-small-one"))
    assert spend(run, *[IMPLEMENT_USD] * WORKS_MIN) is None
    run = run_at(Stage.IMPLEMENT, 7)
    run.add(past(30.0, KNOWN_MIN, "a-big-one"))
    assert spend(run, *[60.0] * WORKS_MIN) is None


def test_cents_are_no_runaway_whatever_the_ratio() -> None:
    run = run_at(Stage.IMPLEMENT, 9)
    run.add(past(0.001, KNOWN_MIN))
    assert spend(run, *[USD_PER_WORK_MIN - 0.001] * 7) is None
    assert spend(run, USD_PER_WORK_MIN + 0.01, first=7) is not None


def test_a_run_does_not_get_used_to_what_it_does() -> None:
    run = run_at(Stage.IMPLEMENT, 12)
    assert spend(run, IMPLEMENT_USD, *[5 * IMPLEMENT_USD] * 4) is not None
    assert run.state.breakers.expected_usd[Stage.IMPLEMENT, ""] == IMPLEMENT_USD


def test_a_long_quiet_night_hides_no_wild_hour() -> None:
    run = run_at(Stage.IMPLEMENT, 16, spend_ratio_max=4.0)
    for name in NAMES[:WORKS_MAX]:
        run.end(good(IMPLEMENT_USD), name)
    assert len(run.state.breakers.dear) == WORKS_MAX
    assert spend(run, *[9 * IMPLEMENT_USD] * 3, first=WORKS_MAX) is None
    assert spend(run, 9 * IMPLEMENT_USD, first=WORKS_MAX + 3) is not None


def test_an_attempt_in_many_calls_is_one_attempt() -> None:
    run = run_at(Stage.IMPLEMENT, 3, budget_usd=1000.0)
    for _ in range(9):
        run.end(failing(Cause.BUDGET, cost=cost(IMPLEMENT_USD / 2)), max_budget_usd=1.0)
    (work,) = run.state.breakers.dear
    assert (work.usd, work.expected_usd, work.goes_on) == (4.5 * IMPLEMENT_USD, IMPLEMENT_USD, True)
    run.end(good(0.0), max_budget_usd=1.0)
    assert run.state.paused is None
    run.succeed_until(Stage.REVIEW)
    run.end(good(1.0))
    assert [w.stage for w in run.state.breakers.dear] == [Stage.IMPLEMENT, Stage.REVIEW]


def test_what_costs_nothing_does_not_dilute_what_does() -> None:
    run = run_at(Stage.IMPLEMENT, 8)
    for name in NAMES[:3]:
        run.end(failing(Cause.INTERRUPTED), name)
    assert spend(run, *[4 * IMPLEMENT_USD] * WORKS_MIN) is not None


def test_estimates_count() -> None:
    run = run_at(Stage.IMPLEMENT, 7)
    for name in NAMES[:WORKS_MIN]:
        estimated = cost(4 * IMPLEMENT_USD, metered=False)
        events = run.end(failing(Cause.INTERRUPTED, cost=estimated), name)
    assert pause_of(events) is not None


def test_nothing_is_paused_when_all_is_done() -> None:
    run = run_at(Stage.REVIEW, WORKS_MIN)
    assert spend(run, *[100.0] * WORKS_MIN) is None
    assert run.state.counts[TaskStatus.COMPLETED] == WORKS_MIN


def after_the_spend_breaker(**settings: object) -> Run:
    run = run_at(Stage.IMPLEMENT, 12, **settings)
    assert spend(run, *[5 * IMPLEMENT_USD] * WORKS_MIN) is not None
    return run


def test_neither_money_nor_a_setting_lets_it_go_on() -> None:
    run = after_the_spend_breaker(budget_usd=1000.0)
    run.add(SettingsChanged(changes={"budget_usd": 2000.0, "spend_ratio_max": 100.0}))
    assert run.state.paused is not None
    assert plan(run.state, now=NOW, capacity=Capacity(limit=4)).stalled == "paused"


def test_one_goes_first_and_a_good_one_lets_the_others_go() -> None:
    run = after_the_spend_breaker()
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    run.dispatch(canary)
    assert models_due(run) == []
    assert pause_of(run.end_out(good(IMPLEMENT_USD), canary)) is None
    assert len(models_due(run)) > 1
    assert spend(run, *[3 * IMPLEMENT_USD] * 4, first=6) is None


def test_one_that_is_as_dear_pauses_again_at_once() -> None:
    run = after_the_spend_breaker()
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    paused = pause_of(run.end(good(5 * IMPLEMENT_USD), canary))
    assert paused is not None
    assert "the attempt that went first has, too, cost 20.00 USD where 4.00" in paused.reason
    run.add(RunUnpaused())
    assert len(models_due(run)) == 1, "and again one goes first"


def test_what_was_out_when_it_tripped_has_been_answered_for() -> None:
    run = run_at(Stage.IMPLEMENT, 12)
    for name in NAMES[6:8]:
        run.dispatch(name)
    assert spend(run, *[5 * IMPLEMENT_USD] * WORKS_MIN) is not None
    run.end_out(good(5 * IMPLEMENT_USD), NAMES[6])
    run.add(RunUnpaused())
    assert models_due(run) == [], "one of them is out still"
    run.end_out(good(5 * IMPLEMENT_USD), NAMES[7])
    assert run.state.paused is None
    assert len(models_due(run)) == 1, "it was no canary"


def test_a_limit_between_does_not_take_the_canarys_place() -> None:
    run = after_the_spend_breaker()
    run.add(CooldownStarted(until=NOW + 5, reason="limit"), RunUnpaused(), CooldownEnded())
    assert len(models_due(run)) == 1


# -- zero work -------------------------------------------------------------------------------------


def idle(cause: Cause = Cause.INVALID_OUTPUT, error: str = "nothing") -> Ending:
    asked = CallCost(cost_usd=0.001, metered=False, input_tokens=100)
    return failing(cause, error, cost=asked)


def test_calls_without_any_work_in_a_row_pause_the_run_and_cost_nothing() -> None:
    run = run_at(Stage.IMPLEMENT, 4)
    run.end(idle(error="one thing"), NAMES[0])
    run.end(idle(Cause.CRASH, "another"), NAMES[1])
    assert run.state.audit.attempts_spent == 1
    paused = pause_of(run.end(idle(error="a third"), NAMES[0]))
    assert paused is not None
    assert (paused.breaker, paused.systemic) == ("zero_work", True)
    assert "3 calls in a row failed without any work (a, b), the last one: a third" in paused.reason
    assert run.state.audit.attempts_spent == 0
    assert run.state.tasks[NAMES[0]].attempt == 1
    assert not [t for t in run.state.tasks.values() if t.status.is_terminal]


def test_a_task_that_they_ended_goes_on() -> None:
    run = run_at(Stage.IMPLEMENT, 4)
    run.end(idle(), NAMES[0])
    run.end(idle(), NAMES[0])
    assert run.state.tasks[NAMES[0]].status is TaskStatus.FAILED
    assert pause_of(run.end(idle(error="else"), NAMES[1])) is not None
    assert run.state.tasks[NAMES[0]].status is TaskStatus.READY
    assert run.state.audit.attempts_spent == 0


@pytest.mark.parametrize(
    "between",
    [
        good(0.1),
        failing(Cause.WORK_ERROR, cost=cost(0.1)),
        failing(Cause.NO_CHANGE),
        failing(Cause.BUDGET, cost=CallCost(cost_usd=0.5)),
    ],
    ids=["success", "failure after work", "no change", "a cost without tokens"],
)
def test_any_work_breaks_the_row(between: Ending) -> None:
    run = run_at(Stage.IMPLEMENT, 6, storm_tasks_max=99)
    run.end(idle(), NAMES[0])
    run.end(idle(), NAMES[1])
    run.end(between, NAMES[2])
    run.end(idle(), NAMES[3])
    run.end(idle(), NAMES[4])
    assert run.state.paused is None


@pytest.mark.parametrize("cause", [Cause.OUTAGE, Cause.LIMIT, Cause.INTERRUPTED])
def test_what_is_waited_for_or_was_ended_by_us_says_nothing(cause: Cause) -> None:
    run = run_at(Stage.IMPLEMENT, 6, storm_tasks_max=99)
    for name in NAMES[:4]:
        run.end(idle(cause), name)
    assert run.state.paused is None
    for name in NAMES[:2]:
        run.end(idle(), name)
    run.end(idle(cause), NAMES[4])
    assert run.state.paused is None
    assert pause_of(run.end(idle(), NAMES[5])) is not None, "nor does it break the row"


def test_one_tasks_own_trouble_is_not_everybodys() -> None:
    run = run_at(Stage.IMPLEMENT, 3)
    for _ in range(5):
        run.end(idle(Cause.CRASH), NAMES[0])
    assert run.state.paused is None
    assert pause_of(run.end(idle(error="else"), NAMES[1])) is not None


def test_where_nobody_else_can_start_one_task_is_enough() -> None:
    run = run_at(Stage.IMPLEMENT, 1)
    for _ in range(2):
        assert pause_of(run.end(idle(Cause.CRASH))) is None
    assert pause_of(run.end(idle(Cause.CRASH))) is not None


def test_a_person_who_looked_in_between_begins_the_row_anew() -> None:
    run = run_at(Stage.IMPLEMENT, 6, storm_tasks_max=99)
    for name in NAMES[:2]:
        run.end(idle(), name)
    run.add(RunPaused(reason="lunch"), RunUnpaused())
    for name in NAMES[2:4]:
        run.end(idle(), name)
    assert run.state.paused is None
    assert len(models_due(run)) > 1, "nor does a pause of a person's ask for a canary"


def test_what_people_do_by_hand_is_no_idle_client() -> None:
    run = run_at(Stage.IMPLEMENT, 6, storm_tasks_max=99)
    for name in NAMES[:5]:
        out = run.dispatch(name)
        report = Report(
            work_item_id=out.work_item_id,
            content_hash="h",
            ending=idle(Cause.WORK_ERROR),
            lane_used="interactive:claude",
        )
        run.add(*decide(run.state, report, NOW))
    assert run.state.paused is None


def test_zero_work_can_be_let_pass() -> None:
    run = run_at(Stage.IMPLEMENT, 6, zero_work_max=0, storm_tasks_max=99)
    for name in NAMES[:6]:
        run.end(idle(Cause.CRASH), name)
    assert run.state.paused is None


def test_after_zero_work_one_goes_first_and_may_not_do_nothing() -> None:
    run = run_at(Stage.IMPLEMENT, 6)
    for name, error in zip(NAMES[:3], ("x", "y", "z"), strict=True):
        run.end(idle(error=error), name)
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    assert pause_of(run.end(idle(error="w"), canary)) is not None
    assert run.state.audit.attempts_spent == 0
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    run.end(good(0.1), canary)
    assert len(models_due(run)) > 1


# -- tasks -----------------------------------------------------------------------------------------


def fail(run: Run, name: TaskId) -> RunPaused | None:
    """For its own reasons, at the first try."""
    return pause_of(run.end(failing(Cause.WORK_ERROR, f"of {name}", cost=cost(0.1)), name))


def test_tasks_that_fail_in_a_row_pause_the_run_and_one_goes_first() -> None:
    run = run_at(Stage.IMPLEMENT, 9, attempts_max=1, storm_tasks_max=99)
    assert [fail(run, name) for name in NAMES[:2]] == [None, None]
    paused = fail(run, NAMES[2])
    assert paused is not None
    assert (paused.breaker, paused.systemic) == ("tasks", False)
    assert "3 tasks failed in a row (a, b, c): implement failed" in paused.reason
    assert run.state.counts[TaskStatus.FAILED] == 3
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    again = fail(run, canary)
    assert again is not None
    assert f"the task that went first failed, too ({canary})" in again.reason


def test_after_a_good_one_it_counts_anew() -> None:
    run = run_at(Stage.IMPLEMENT, 9, attempts_max=1, storm_tasks_max=99)
    for name in NAMES[:3]:
        fail(run, name)
    run.add(RunUnpaused())
    run.end(good(0.1), NAMES[3])
    assert len(models_due(run)) > 1
    assert [fail(run, name) for name in NAMES[4:6]] == [None, None]
    assert fail(run, NAMES[6]) is not None


def test_failing_tasks_can_be_let_pass() -> None:
    run = run_at(Stage.IMPLEMENT, 9, attempts_max=1, storm_tasks_max=99, failing_tasks_max=0)
    assert [fail(run, name) for name in NAMES[:8]] == [None] * 8


# -- told -----------------------------------------------------------------------------------------


def test_a_heartbeat_says_why_nothing_starts() -> None:
    run = after_the_spend_breaker()
    assert heartbeat(run) == ("paused", run.state.paused)
    run.add(RunUnpaused())
    (canary,) = models_due(run)
    assert heartbeat(run) == ("canary", ONE_GOES_FIRST)
    run.dispatch(canary)
    assert heartbeat(run) == ("canary", ONE_GOES_FIRST)
    run.end_out(good(0.1), canary)
    assert heartbeat(run)[0] != "canary"


def heartbeat(run: Run) -> tuple[str, str | None]:
    most = Capacity(limit=20)
    due = plan(run.state, now=NOW, capacity=most)
    pulse = pulse_of(run.state, due, most, is_preparing=False)
    return pulse.limited_by, pulse.reason
