"""Whatever order results come in, and whatever they cost: no budget holds less than is promised."""

from hypothesis import given, settings, strategies as st

from orchestrator.core.budget import (
    RESERVATION_USD_MIN,
    left_usd,
    stage_budget_usd,
    task_budget_usd,
)
from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import decide
from orchestrator.core.events import DispatchReclaimed, SettingsChanged, TaskAdded
from orchestrator.core.fold import replay
from orchestrator.core.model import CallCost, Cause, Ending, Report, ResultStatus
from orchestrator.core.plan import Plan, plan
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease
from tests.property.test_run import dags, through_the_codec
from tests.unit.test_decide import NOW, Run

DUST_USD = 1e-9
STEPS_MAX = 80
budgets = st.none() | st.floats(0, 20).map(lambda usd: round(usd, 4)) | st.just(0.1 + 0.2)
causes = st.sampled_from(
    (None, None, None, Cause.BUDGET, Cause.CRASH, Cause.WORK_ERROR, Cause.REJECTED, Cause.OUTAGE)
)


def due(run: Run) -> Plan:
    return plan(run.state, now=NOW, capacity=Capacity(limit=3))


@settings(max_examples=80, deadline=None)
@given(dags(), budgets, budgets, budgets, st.data())
def test_spent_and_reserved_are_within_every_budget(
    tasks: list[TaskAdded],
    of_run: float | None,
    of_task: float | None,
    of_stage: float | None,
    data: st.DataObject,
) -> None:
    told = Settings(
        budget_usd=of_run,
        task_budget_usd=of_task,
        implement_budget_usd=of_stage,
        failing_tasks_max=100,
    )
    run = Run(*tasks, settings=told)
    is_as_told = True
    for _ in range(STEPS_MAX):
        action = data.draw(st.sampled_from(("start", "start", "end", "end", "lost", "lower")))
        if action == "start":
            for start in due(run).starts:
                run.dispatch(start.task_id, start.max_budget_usd)
        elif action == "end" and run.state.in_flight:
            lease = data.draw(st.sampled_from(list(run.state.in_flight.values())))
            ending = data.draw(endings_of(lease))
            report = Report(work_item_id=lease.work_item_id, content_hash="h", ending=ending)
            spent = run.state.audit.attempts_spent
            run.add(*decide(run.state, report, NOW))
            if ending.cause is Cause.BUDGET and lease.max_budget_usd is not None:
                assert run.state.audit.attempts_spent == spent
        elif action == "lost" and run.state.in_flight:
            lease = data.draw(st.sampled_from(list(run.state.in_flight.values())))
            how = "redispatched"
            work = lease.work_item_id
            run.add(DispatchReclaimed(task_id=lease.task_id, work_item_id=work, how=how))
        elif action == "lower" and of_run is not None:
            of_run, is_as_told = data.draw(st.floats(0, 20)), False
            run.add(SettingsChanged(changes={"budget_usd": of_run}))
            check_nothing_starts_without_money(run)
            continue
        check(run, may_be_lowered=not is_as_told)
    assert replay(through_the_codec(run)) == run.state


@st.composite
def endings_of(draw: st.DrawFn, lease: Lease) -> Ending:
    """Of a child that keeps within what it was given."""
    cause = draw(causes)
    most = 0.5 if lease.max_budget_usd is None else lease.max_budget_usd
    cost: CallCost | None = None
    if not lease.stage.is_deterministic and draw(st.booleans()):
        usd = draw(st.sampled_from((0.0, most)) | st.floats(0, most))
        cost = CallCost(cost_usd=usd, metered=draw(st.booleans()))
    status = ResultStatus.SUCCESS if cause is None else ResultStatus.FAILURE
    return Ending(status=status, cause=cause, error=draw(st.sampled_from("abc")), cost=cost)


def check(run: Run, *, may_be_lowered: bool) -> None:
    state = run.state
    reserved = [lease.max_budget_usd or 0.0 for lease in state.in_flight.values()]
    assert abs(state.totals.reserved_usd - sum(reserved)) < DUST_USD
    budget = state.settings.budget_usd
    if budget is not None and not may_be_lowered:
        assert state.totals.cost_usd + state.totals.reserved_usd <= budget + DUST_USD
    for task in state.tasks.values():
        lease = task.lease
        promised = (lease.max_budget_usd if lease else None) or 0.0
        of_task = task_budget_usd(state, task)
        if of_task is not None:
            assert task.cost_usd + promised <= of_task + DUST_USD
        of_stage = stage_budget_usd(state, task.stage)
        if of_stage is not None and (lease is None or lease.stage is task.stage):
            assert task.stage_usd.get(task.stage, 0.0) + promised <= of_stage + DUST_USD
    check_nothing_starts_without_money(run)
    left = left_usd(state)
    assert left is None or left >= state.totals.reserved_usd - DUST_USD


def check_nothing_starts_without_money(run: Run) -> None:
    budget, totals = run.state.settings.budget_usd, run.state.totals
    if budget is None:
        return
    new = [s.max_budget_usd for s in due(run).starts if not s.stage.is_deterministic]
    assert all(usd is not None and usd >= RESERVATION_USD_MIN - 1e-6 for usd in new)
    asked = sum(usd or 0.0 for usd in new)
    left = budget - totals.cost_usd - totals.reserved_usd
    assert not new or asked <= left + DUST_USD
