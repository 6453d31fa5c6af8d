"""The budgets: what a start reserves, whom they keep waiting, what can still be spent."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from drivers.headless.stalled import out_of_money, why_stalled
from orchestrator.core.budget import EXPECTED_USD, RESERVATION_USD_MIN, left_usd, max_possible_usd
from orchestrator.core.capacity import Capacity
from orchestrator.core.events import (
    RunFinalized,
    SettingsChanged,
    TaskChanged,
    TaskHeld,
    TaskRequeued,
)
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    ResultStatus,
    RunStatus,
    Stage,
    TaskId,
)
from orchestrator.core.plan import Plan, StartStage, plan
from orchestrator.core.remainder import in_usd, raised_usd, to_finish
from orchestrator.core.settings import Settings
from orchestrator.core.words import usd_text
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.status import status_of
from orchestrator.views.text import status_text
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, A, Run, failing

B = TaskId("b")
OK = ResultStatus.SUCCESS


def paid(usd: float | None) -> Ending:
    return Ending(status=OK, cost=None if usd is None else CallCost(cost_usd=usd))


def due(run: Run, limit: int = 5) -> Plan:
    return plan(run.state, now=NOW, capacity=Capacity(limit=limit))


def reserved(run: Run) -> list[float | None]:
    return [start.max_budget_usd for start in due(run).starts]


def at(stage: Stage, *names: str, **budgets: float) -> Run:
    """Tasks that are to do this stage; what came before cost nothing."""
    told = msgspec.structs.replace(Settings(), **budgets)
    run = Run(*(task(name) for name in names), settings=told)
    for name in names:
        run.succeed_until(stage, TaskId(name))
    return run


# -- what a start reserves ------------------------------------------------------------------


def test_without_any_budget_nothing_is_reserved() -> None:
    assert reserved(at(Stage.IMPLEMENT, "a")) == [None]


@pytest.mark.parametrize("stage", EXPECTED_USD)
def test_before_anything_is_known_the_default_is_reserved(stage: Stage) -> None:
    assert reserved(at(stage, "a", budget_usd=100.0)) == [EXPECTED_USD[stage]]


def test_what_such_stages_have_cost_is_reserved() -> None:
    run = at(Stage.SCOPE, *"abcdefghijkl", budget_usd=100.0)
    for number, name in enumerate("abcdefghijk"):
        run.end(paid(0.10 + number / 100), TaskId(name))
    ((start,),) = [[s for s in due(run, 20).starts if s.task_id == "l"]]
    assert start.max_budget_usd == pytest.approx(0.19)  # the tenth of eleven


def test_starts_of_one_plan_share_what_is_left() -> None:
    run = at(Stage.IMPLEMENT, "a", "b", "c", budget_usd=6.0)
    assert reserved(run) == [4.0, 2.0]
    assert due(run).limited_by == "budget"
    run.dispatch(A, 4.0)
    assert reserved(run) == [2.0]


def test_what_comes_back_unused_can_be_reserved_again() -> None:
    run = at(Stage.IMPLEMENT, "a", "b", budget_usd=4.0)
    assert reserved(run) == [4.0]
    run.end(paid(1.0), A, 4.0)
    assert [s.max_budget_usd for s in due(run).starts if s.task_id == "b"] == [1.0]


def test_a_budget_that_was_lowered_below_what_is_promised_starts_nothing() -> None:
    run = at(Stage.IMPLEMENT, "a", "b", budget_usd=10.0)
    run.dispatch(A, 4.0)
    run.add(SettingsChanged(changes={"budget_usd": 3.0}))
    assert due(run).starts == ()
    assert (left_usd(run.state), max_possible_usd(run.state)) == (4.0, 4.0)


def test_crumbs_of_adding_and_taking_away_are_left_nowhere() -> None:
    run = at(Stage.IMPLEMENT, "a", "b", budget_usd=100.0)
    run.dispatch(A, 0.1)
    run.dispatch(B, 0.2)
    run.end_out(paid(None), B)
    assert run.state.totals.reserved_usd == 0.1


# -- more money for one that needs it ---------------------------------------------------------


def test_each_extension_of_an_attempt_doubles_what_is_expected() -> None:
    run = at(Stage.IMPLEMENT, "a", budget_usd=100.0)
    found = []
    for _ in range(4):
        (usd,) = reserved(run)
        found.append(usd)
        run.end(failing(Cause.BUDGET, cost=CallCost(cost_usd=usd or 0.0)), A, usd)
    assert found == [4.0, 8.0, 16.0, 32.0]
    assert run.state.audit.attempts_spent == 0
    run.succeed_until(Stage.REVIEW)
    assert reserved(run) == [1.0]


def test_an_attempt_that_was_extended_counts_as_a_whole() -> None:
    run = at(Stage.IMPLEMENT, "a", budget_usd=100.0)
    run.end(failing(Cause.BUDGET, cost=CallCost(cost_usd=4.1)), A, 4.0)
    run.end(paid(2.0), A, 8.0)
    assert run.state.history.cost_usd(Stage.IMPLEMENT, "sonnet", 0.9) == pytest.approx(6.1)


def test_a_limit_that_is_not_ours_is_not_met_for_ever() -> None:
    run = at(Stage.IMPLEMENT, "a")
    run.end(failing(Cause.BUDGET), A)
    assert run.state.audit.attempts_spent == 1


# -- budgets of a task and of a stage ------------------------------------------------------------


def test_a_task_that_has_used_up_its_own_waits_and_stops_no_other() -> None:
    run = at(Stage.IMPLEMENT, "a", "b", task_budget_usd=2.0)
    run.end(paid(2.0), A, 2.0)
    run.succeed_until(Stage.REVIEW)
    assert [(s.task_id, s.max_budget_usd) for s in due(run).starts] == [("b", 2.0)]
    run.end(paid(1.999), B, 2.0)
    run.succeed_until(Stage.REVIEW, B)
    assert due(run).stalled == "task_budget:a"
    run.add(TaskChanged(task_id=A, changes={"budget_usd": 2.5}))
    assert [(s.task_id, s.max_budget_usd) for s in due(run).starts] == [("a", 0.5)]


def test_a_task_answers_for_all_of_its_rounds_and_a_stage_for_this_one() -> None:
    run = at(Stage.SCOPE, "a", task_budget_usd=2.0, scope_budget_usd=0.5)
    run.end(paid(0.5), A, 0.5)
    run.add(TaskHeld(task_id=A, reason=""), TaskRequeued(task_id=A, round=2))
    run.succeed_until(Stage.SCOPE)
    assert reserved(run) == [0.5]
    run.add(SettingsChanged(changes={"task_budget_usd": 0.5}))
    assert due(run).stalled == "task_budget:a"


def test_a_stage_that_has_used_up_its_own_waits() -> None:
    run = at(Stage.IMPLEMENT, "a", implement_budget_usd=1.0)
    assert reserved(run) == [1.0]
    run.end(failing(Cause.BUDGET, cost=CallCost(cost_usd=1.01)), A, 1.0)
    assert due(run).stalled == "stage_budget:a/implement"
    run.add(SettingsChanged(changes={"implement_budget_usd": 3.0}))
    assert reserved(run) == [1.99]


# -- at the budget -------------------------------------------------------------------------------


def test_what_is_paid_for_is_finished_and_nothing_new_is_begun() -> None:
    run = at(Stage.IMPLEMENT, "a", budget_usd=1.0)
    run.add(task("b"))
    run.end(paid(1.0), A, 1.0)
    assert [(s.task_id, s.stage) for s in due(run).starts] == [("a", Stage.TEST)]
    run.succeed_until(Stage.REVIEW)
    assert (due(run).starts, due(run).stalled) == ((), "budget")


def test_a_start_that_was_prepared_with_less_may_go_and_one_with_more_may_not() -> None:
    def start(usd: float | None, attempt: int = 1) -> StartStage:
        return StartStage(
            task_id=A, stage=Stage.SCOPE, attempt=attempt, dispatch=1, max_budget_usd=usd
        )

    assert start(2.0).allows(start(2.0))
    assert start(2.0).allows(start(1.0))
    assert start(None).allows(start(1.0))
    assert not start(1.0).allows(start(2.0))
    assert not start(1.0).allows(start(None))
    assert not start(2.0).allows(start(1.0, attempt=2))


def test_the_most_that_can_still_be_spent_is_bounded_by_every_budget() -> None:
    run = at(Stage.IMPLEMENT, "a", "b")
    assert (left_usd(run.state), max_possible_usd(run.state)) == (None, None)
    run.add(SettingsChanged(changes={"implement_budget_usd": 2.0}))
    assert left_usd(run.state) is None
    run.add(SettingsChanged(changes={"review_budget_usd": 1.0}))
    assert left_usd(run.state) == 6.0  # scope is behind both, and never done again
    run.add(TaskChanged(task_id=A, changes={"budget_usd": 0.5}))
    assert left_usd(run.state) == 3.5
    run.end(paid(0.25), B, 2.0)
    assert (left_usd(run.state), max_possible_usd(run.state)) == (3.25, 3.5)
    run.add(SettingsChanged(changes={"budget_usd": 1.0}))
    assert (left_usd(run.state), max_possible_usd(run.state)) == (0.75, 1.0)


def test_a_run_that_has_ended_can_spend_nothing_more() -> None:
    run = at(Stage.REVIEW, "a", budget_usd=5.0)
    run.end(paid(1.0), A, 1.0)
    run.add(RunFinalized(state=RunStatus.COMPLETED))
    assert (left_usd(run.state), max_possible_usd(run.state)) == (0.0, 1.0)


# -- what it takes to finish ---------------------------------------------------------------------


def test_what_it_takes_to_finish_is_what_such_stages_took_with_their_failures() -> None:
    run = Run(task("a"), task("b"))
    assert to_finish(run.state).unknown == (Stage.SCOPE, Stage.IMPLEMENT, Stage.REVIEW)
    run.succeed_until(Stage.SCOPE)
    run.end(paid(0.2))
    run.end(failing(Cause.WORK_ERROR, cost=CallCost(cost_usd=1.0)))
    run.end(paid(2.0))
    left = to_finish(run.state)
    assert left.unknown == (Stage.REVIEW,)
    assert left.usd == pytest.approx(3.2)
    assert "more than 3.20 USD" in left.in_words()
    run.succeed_until(Stage.REVIEW)
    run.end(paid(0.3))
    left = to_finish(run.state)
    assert left.is_known
    assert left.usd == pytest.approx(3.5)


def test_a_budget_is_raised_to_what_is_known_to_be_needed() -> None:
    assert raised_usd(5.0, 4.999, 3.2) == 8.2
    assert raised_usd(5.0, 4.999, None) == 10.0
    assert raised_usd(5.0, 5.2, 0.0) > 5.2
    assert raised_usd(20.0, 3.0, 1.0) > 20.0


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.none() | st.floats(0, 1e4))
def test_a_raised_budget_is_one_that_something_starts_with(
    budget_usd: float, spent_usd: float, remainder_usd: float | None
) -> None:
    advised = float(in_usd(raised_usd(budget_usd, spent_usd, remainder_usd)))
    assert advised > budget_usd
    assert advised - spent_usd >= RESERVATION_USD_MIN
    if remainder_usd is not None:
        assert advised - spent_usd >= remainder_usd - 1e-6


def test_less_than_a_cent_is_not_told_as_nothing() -> None:
    told = [in_usd(usd) for usd in (20, 1.35, 0.016, 0.005, 1234567.0, 0)]
    assert told == ["20", "1.35", "0.016", "0.005", "1234567", "0"]
    told = [usd_text(usd) for usd in (20, 1.354, 0.99999, 0.5, 0.0355, 0.00004, 0, -0.016)]
    assert told == ["20.00", "1.35", "1.00", "0.50", "0.0355", "0.00", "0.00", "-0.016"]


def test_a_small_budget_that_is_not_quite_spent_is_told_so() -> None:
    run = at(Stage.IMPLEMENT, "a", budget_usd=0.04, implement_budget_usd=0.04)
    run.end(failing(Cause.BUDGET, cost=CallCost(cost_usd=0.0355)), A, 1.0)
    assert out_of_money(run.state).startswith("budget: 0.0355 of 0.04 USD are spent")
    assert "has cost 0.0355 of 0.04 USD, raise it" in why_stalled(run.state, "stage_budget:a")
    status = status_of(run.state, DriverStatus(), now=NOW, lease_alive=lambda _: False)
    (row,) = status.tasks
    assert row.budget_used_up is not None
    assert row.budget_used_up.in_words.endswith("0.0355 of 0.04 USD")
    assert "\ncost     0.0355 USD of 0.04" in status_text(status)
