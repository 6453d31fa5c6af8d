"""The forecast: the real scheduler under a virtual clock, and dice that are the run's own."""

import msgspec
import pytest

from orchestrator.core.events import (
    Entry,
    HistoryLoaded,
    KnownEvent,
    RunPaused,
    StageDispatched,
    StageRecorded,
    StopRequested,
)
from orchestrator.core.experience import Experience
from orchestrator.core.forecast import FUTURES_MAX, foresee, futures_that_fit, quantile, what_if
from orchestrator.core.futures import Copies, Drive, live_through
from orchestrator.core.guess import Guess
from orchestrator.core.history import History, Sample
from orchestrator.core.model import Outcome, Stage, TaskId, Window
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from tests.unit.cli.runs import added, dispatched, run_of, then

NOW = 1_000.0
ONE = Drive(max_concurrent=1)
TWO = Drive(max_concurrent=2)


def certain(took_s: float = 100.0, usd: float = 1.0, many: int = 20) -> HistoryLoaded:
    """Of each stage, always the same."""
    return HistoryLoaded(
        samples=tuple(
            Sample(
                stage=stage,
                model="" if stage.is_deterministic else "sonnet",
                outcome=Outcome.COMPLETED if stage is Stage.REVIEW else Outcome.ADVANCED,
                duration_s=took_s,
                cost_usd=0.0 if stage.is_deterministic else usd,
                task=f"past/T{i}",
            )
            for stage in Stage
            for i in range(many)
        )
    )


def state_of(*events: KnownEvent, **settings: object) -> RunState:
    return run_of(*events, settings=Settings(**settings))  # type: ignore[arg-type]


def test_what_is_certain_is_foreseen_as_it_is() -> None:
    state = state_of(added("T1"), added("T2"), certain())
    seen = foresee(state, now=NOW, drive=ONE, count=20)
    assert seen.finish_at == pytest.approx((NOW + 1200.0,) * 3)
    assert seen.cost_usd == pytest.approx((6.0,) * 3)
    assert seen.completed == (2.0, 2.0, 2.0)


def test_what_is_certain_needs_no_doubt_but_what_prior_says() -> None:
    """A kind that is known never failed here: a future in which it does is rare."""
    seen = foresee(state_of(added("T1"), certain()), now=NOW, drive=ONE, count=100)
    assert sum(len(future.unfinished) for future in seen.every) == 0


def test_the_same_run_gives_the_same_forecast() -> None:
    state = state_of(added("T1"), added("T2", "T1"))
    one = foresee(state, now=NOW, drive=TWO, count=10)
    other = foresee(state, now=NOW, drive=TWO, count=10)
    assert one.as_event() == other.as_event()
    then(state, [added("T3")])
    assert foresee(state, now=NOW, drive=TWO, count=10).as_event() != one.as_event()


def test_the_run_itself_is_left_as_it_is() -> None:
    state = state_of(added("T1"), added("T2"), certain(), dispatched("T1"))
    before = msgspec.msgpack.encode(state)
    foresee(state, now=NOW, drive=TWO, count=3)
    assert msgspec.msgpack.encode(state) == before


def test_another_slot_is_worth_what_it_saves() -> None:
    state = state_of(added("T1"), added("T2"), certain(), budget_usd=100.0)
    base = foresee(state, now=NOW, drive=ONE, count=10)
    slot, money = what_if(state, base, drive=ONE, count=10)
    assert slot.what == "slot"
    assert slot.sooner_s == pytest.approx(600.0)
    assert money.what == "budget"
    assert (money.sooner_s, money.more_completed) == (0.0, 0.0)


def test_what_the_budget_does_not_reach_is_said() -> None:
    state = state_of(added("T1"), added("T2"), added("T3", "T2"), certain(), budget_usd=5.0)
    seen = foresee(state, now=NOW, drive=ONE, count=10)
    assert all("budget" in why for future in seen.every for why in future.unfinished.values())
    assert all(TaskId("T3") in future.unfinished for future in seen.every)
    assert seen.cost_usd[2] <= 5.0 + 1e-9
    (_, money) = what_if(state, seen, drive=ONE, count=10)
    assert money.more_completed >= 1.0


def test_a_stage_that_runs_is_given_no_less_than_it_has_taken() -> None:
    state = state_of(added("T1"), certain(), dispatched("T1"))
    began = state.in_flight[TaskId("T1")].dispatched_at
    early = foresee(state, now=began + 40.0, drive=ONE, count=5)
    assert early.finish_at[1] == pytest.approx(began + 600.0)
    late = foresee(state, now=began + 5_000.0, drive=ONE, count=5)
    assert late.finish_at[0] > began + 5_000.0 + 500.0


def test_a_paused_or_stopping_run_is_foreseen_as_if_it_went_on() -> None:
    asked = RunPaused(reason="a person"), StopRequested(how="drain")
    state = state_of(added("T1"), certain(), *asked)
    seen = foresee(state, now=NOW, drive=ONE, count=5)
    assert seen.finish_at[1] == pytest.approx(NOW + 600.0)


def test_a_full_window_is_waited_for() -> None:
    state = state_of(added("T1"), certain())
    window = Window(name="five_hour", utilization=0.97, resets_at=NOW + 9_000.0)
    state.windows["five_hour"] = window
    seen = foresee(state, now=NOW, drive=ONE, count=5)
    assert seen.finish_at[0] >= NOW + 9_000.0 + 400.0


def test_nothing_known_is_a_wide_guess_and_said() -> None:
    state = state_of(added("T1"))
    seen = foresee(state, now=NOW, drive=ONE, count=60)
    low, middle, high = (at - NOW for at in seen.finish_at)
    assert seen.experience.samples == 0
    assert seen.experience.guessed == set(Stage)
    assert low < middle / 1.5
    assert high > middle * 1.5


def test_a_failure_is_gone_on_from_as_the_driver_would() -> None:
    failing = certain()
    tests = [s for s in failing.samples if s.stage is Stage.TEST]
    failed = [msgspec.structs.replace(s, outcome=Outcome.RETRY) for s in tests]
    others = [s for s in failing.samples if s.stage is not Stage.TEST]
    state = state_of(added("T1"), added("T2", "T1"), HistoryLoaded(samples=(*others, *failed)))
    heard: list[Entry] = []
    copy = Copies(state).one()
    life = live_through(
        copy,
        Guess(Experience(state.history), 1, 1),
        now=NOW,
        drive=ONE,
        heard=lambda _, entry: heard.append(entry),
    )
    stages = [e.event.stage for e in heard if isinstance(e.event, StageDispatched)]
    assert stages.count(Stage.TEST) >= copy.settings.attempts_max
    assert life.pauses == 0
    assert copy.tasks[TaskId("T2")].reason == "T1 did not complete"


def test_a_stage_is_cut_off_at_what_it_reserved_and_goes_on() -> None:
    state = state_of(added("T1"), certain(usd=9.0), budget_usd=100.0)
    heard: list[Entry] = []
    copy = Copies(state).one()
    copy.history = History()  # nothing to reserve by: a default, and less than it takes
    experience = Experience(state.history)
    live_through(
        copy,
        Guess(experience, 1, 1),
        now=NOW,
        drive=ONE,
        heard=lambda _, entry: heard.append(entry),
    )
    scoped = [
        e.event
        for e in heard
        if isinstance(e.event, StageRecorded) and e.event.stage is Stage.SCOPE
    ]
    *cut_off, last = [event.outcome for event in scoped]
    assert set(cut_off) == {Outcome.AGAIN}
    assert last is Outcome.ADVANCED
    assert sum(e.cost.cost_usd for e in scoped if e.cost) == pytest.approx(9.0)
    assert sum(event.exit.duration_s for event in scoped) == pytest.approx(100.0)


def test_what_a_task_has_been_like_is_what_it_is_expected_to_be() -> None:
    slow = [
        Sample(
            stage=stage,
            model="sonnet",
            outcome=Outcome.ADVANCED,
            duration_s=100.0 * (i + 1),
            task=f"past/T{i}",
        )
        for stage in (Stage.SCOPE, Stage.IMPLEMENT, Stage.REVIEW)
        for i in range(30)
    ]
    history = History()
    history.load(slow)
    history.add(
        Sample(
            stage=Stage.SCOPE, model="sonnet", outcome=Outcome.ADVANCED, duration_s=1e4, task="T1"
        )
    )
    experience = Experience(history)
    assert experience.shared > 0.8
    state = state_of(added("T1"), added("T2"))
    guess = Guess(experience, 7, 1)
    bent = [guess._mind(state.tasks[TaskId(name)]).bent for name in ("T1", "T2")]
    assert bent[0] > 1.0 > bent[1]


def test_the_number_of_futures_falls_with_what_there_is_to_do() -> None:
    few = state_of(added("T1"))
    assert futures_that_fit(few) == FUTURES_MAX
    assert futures_that_fit(few, stages_max=60) == 10
    assert futures_that_fit(few, stages_max=1) == 1


def test_quantiles_of_few_lie_as_far_out_as_few_allow() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 3.0], 0.9) == 3.0
    assert quantile([float(i) for i in range(1, 10)], 0.1) == 1.0
