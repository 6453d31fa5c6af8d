"""A call that did not say its cost is estimated, and never paid for a second time."""

from typing import Any

import pytest

from orchestrator.core.events import StageRecorded
from orchestrator.core.model import (
    CallCost,
    Outcome,
    Pipeline,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItemId,
)
from orchestrator.core.sessions import book_call, start_session
from orchestrator.core.state import TaskState
from tests.unit.claude.recorded import init, reply, result
from tests.unit.claude.test_cost import cost_of

MODEL = "claude-sonnet-4-6"


def task_after(*costs: CallCost) -> TaskState:
    task = TaskState(
        id=TaskId("a"),
        slug="a",
        title="",
        body="",
        pipeline=Pipeline.FULL,
        depends_on=(),
        added_seq=1,
    )
    start_session(task, Stage.IMPLEMENT, SessionId("s"))
    for cost in costs:
        recorded = StageRecorded(
            task_id=task.id,
            stage=Stage.IMPLEMENT,
            attempt=1,
            dispatch=1,
            work_item_id=WorkItemId("w"),
            status=ResultStatus.SUCCESS,
            outcome=Outcome.AGAIN,
            lane_used="",
            cost=cost,
        )
        book_call(task, recorded)
    return task


def next_cost(task: TaskState, *, total_usd: float, own_usd: float) -> float:
    assert task.work_session is not None
    before = {
        "total_usd": task.work_session.total_usd,
        "estimated_usd": task.work_session.estimated_usd,
        "usage": {},
    }
    own: dict[str, Any] = {MODEL: {"costUSD": own_usd, "outputTokens": 1}}
    total: dict[str, Any] = {MODEL: {"costUSD": total_usd, "outputTokens": 2}}
    said = result(total_cost_usd=total_usd, modelUsage=total, model_usage_since_last_result=own)
    return cost_of(init() + reply() + said, before).cost_usd


ESTIMATED = CallCost(cost_usd=0.2, metered=False)
NOTHING = CallCost(cost_usd=0.0, session_total_usd=0.0)
"""Of a start that failed: a total that says nothing."""


@pytest.mark.parametrize("costs", [(ESTIMATED,), (ESTIMATED, NOTHING)])
def test_what_was_estimated_is_not_booked_again_when_the_client_charges_it(
    costs: tuple[CallCost, ...],
) -> None:
    assert next_cost(task_after(*costs), total_usd=0.5, own_usd=0.3) == pytest.approx(0.3)


def test_what_the_client_forgot_stays_booked() -> None:
    assert next_cost(task_after(ESTIMATED), total_usd=0.3, own_usd=0.3) == pytest.approx(0.3)


def test_what_nobody_saw_is_booked_with_the_next_total() -> None:
    assert next_cost(task_after(ESTIMATED), total_usd=0.9, own_usd=0.3) == pytest.approx(0.7)


def test_a_total_settles_what_was_estimated_before_it() -> None:
    total = CallCost(cost_usd=0.3, session_total_usd=0.3)
    task = task_after(ESTIMATED, total)
    assert next_cost(task, total_usd=0.9, own_usd=0.1) == pytest.approx(0.6)
