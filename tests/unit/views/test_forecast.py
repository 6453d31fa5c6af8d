"""The forecast as it is read: by a person, and in status."""

from orchestrator.core.events import ForecastMade, HistoryLoaded, KnownEvent, RunFinalized
from orchestrator.core.forecast import foresee, what_if
from orchestrator.core.futures import Drive
from orchestrator.core.history import Sample
from orchestrator.core.model import Outcome, RunStatus, Stage
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.forecast import (
    UNFIT_SHOWN_MAX,
    Forecast,
    forecast_of,
    forecast_of_ended,
    forecast_text,
)
from orchestrator.views.outlook import score
from orchestrator.views.status import status_of
from orchestrator.views.text import WIDTH, status_text
from tests.unit.cli.runs import added, failing, run_of, then

NOW = 1_000.0
DRIVE = Drive(max_concurrent=2)
SAID = ForecastMade(at=1.0, finish_at=(100.0, 200.0, 300.0), cost_usd=(4.0, 4.0, 4.0), samples=60)


def seen(state: RunState, count: int = 20) -> Forecast:
    futures = foresee(state, now=NOW, drive=DRIVE, count=count)
    return forecast_of(state, futures, what_if(state, futures, drive=DRIVE, count=5))


def tasks(many: int) -> list[KnownEvent]:
    return [added(f"T{i}") for i in range(many)]


def test_it_says_that_it_rests_on_nothing() -> None:
    text = forecast_text(seen(run_of(added("T1"))))
    assert "rests on   defaults: nothing is known of this project yet; 20 futures" in text
    assert "with one slot more" in text
    assert "USD more" not in text  # there is no budget to raise


def test_it_says_of_which_stages_too_little_is_known() -> None:
    known = tuple(
        Sample(stage=stage, outcome=Outcome.ADVANCED, duration_s=5.0, task=f"past/T{i}")
        for stage in (Stage.INTAKE, Stage.TEST, Stage.DELIVER)
        for i in range(10)
    )
    forecast = seen(run_of(added("T1"), HistoryLoaded(samples=known)))
    assert forecast.basis is not None
    assert forecast.basis.guessed == (Stage.SCOPE, Stage.IMPLEMENT, Stage.REVIEW)
    assert "(30 attempts); defaults for scope, implement, review" in forecast_text(forecast)


def test_what_does_not_fit_is_named_most_endangered_first() -> None:
    forecast = seen(run_of(*tasks(40), settings=Settings(budget_usd=6.0)), count=10)
    shares = [row.share for row in forecast.will_not_fit]
    assert len(shares) > UNFIT_SHOWN_MAX
    assert shares == sorted(shares, reverse=True)
    text = forecast_text(forecast)
    assert f"… and {len(shares) - UNFIT_SHOWN_MAX} more" in text
    assert "with 20 USD more" in text
    assert "budget 6.00" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_run_that_has_ended_is_scored_by_its_first_forecast() -> None:
    state = then(run_of(added("T1")), [SAID, *failing("T1")])
    then(state, [RunFinalized(state=RunStatus.FAILED)])
    forecast = forecast_of_ended(state, NOW)
    assert forecast.score is not None
    assert not forecast.score.time_held
    text = forecast_text(forecast)
    assert "run r1 has ended (failed)" in text
    assert "outside, as two runs of ten are" in text


def test_a_run_that_has_ended_without_one_says_so() -> None:
    state = then(run_of(added("T1")), failing("T1"))
    then(state, [RunFinalized(state=RunStatus.FAILED)])
    assert "no forecast was made" in forecast_text(forecast_of_ended(state, NOW))


def test_a_forecast_is_for_the_run_until_it_is_opened_again() -> None:
    state = then(run_of(added("T1")), [SAID, *failing("T1")])
    then(state, [RunFinalized(state=RunStatus.FAILED), added("T2")])
    assert state.forecast is None
    assert state.outlook is None


def test_a_budget_that_all_futures_use_up_holds_to_the_percent() -> None:
    near = score(SAID, finished_at=200.0, cost_usd=3.97)
    far = score(SAID, finished_at=200.0, cost_usd=3.9)
    assert near is not None
    assert far is not None
    assert (near.cost_held, far.cost_held) == (True, False)


def test_status_shows_the_last_one_while_the_run_goes_on() -> None:
    state = run_of(added("T1"), SAID)
    status = status_of(state, DriverStatus(state="none"), now=NOW, lease_alive=lambda _: False)
    assert status.forecast is not None
    assert status.forecast.finish_at.p50 == 200.0
    (line,) = [line for line in status_text(status).splitlines() if line.startswith("forecast")]
    assert "4.00 USD (4.00 to 4.00)" in line
