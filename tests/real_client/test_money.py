"""Money, end to end with the real client: it stops at the budget, and goes on with more."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.loopback_api import Reply, Request, ToolUse, Turn
from tests.real_client.batch import USAGE, Batch, Model
from tests.real_client.client import API_KEY

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

TURN_USD = 0.006525
"""Of ``USAGE``, as the client itself prices it."""


@pytest.fixture
def batch(real_client: Path, tmp_path: Path) -> Iterator[Callable[[Model], Batch]]:
    with ExitStack() as stack:
        yield lambda model: stack.enter_context(Batch(real_client, tmp_path, model))


def _records(done: Batch) -> list[dict[str, Any]]:
    return [event for event in done.events("stage_recorded") if event.get("cost")]


def _assert_ledger_is_what_the_sessions_cost(done: Batch) -> None:
    totals: dict[str, float] = defaultdict(float)
    for event in _records(done):
        total = event["cost"]["session_total_usd"]
        totals[event["session_id"]] = max(totals[event["session_id"]], total)
    spent = sum(event["cost"]["cost_usd"] for event in _records(done))
    assert spent == pytest.approx(sum(totals.values()))
    assert spent == pytest.approx(TURN_USD * done.model.answered.total())
    assert done.status()["cost"]["total_usd"] == pytest.approx(spent, abs=1e-6)
    for by in ("task", "stage", "model", "effort", "waste"):
        report = done.command("cost-report", "--by", by)
        assert sum(row["cost_usd"] for row in report["rows"]) == pytest.approx(spent, abs=1e-6)


def test_five_cents_are_not_passed_and_with_more_the_batch_completes(
    batch: Callable[[Model], Batch],
) -> None:
    done = batch(Model())
    done.make_run("T1", "T2", lane="micro", budget_usd="0.05", max_concurrent="1")
    assert done.drive(API_KEY) == 3, done.narration()

    status = done.status()
    cost = status["cost"]
    assert status["run_state"] == "paused"
    assert status["reason"].startswith("paused: budget: 0.0")
    assert 0.04 < cost["total_usd"] <= 0.05 + TURN_USD
    assert cost["reserved_usd"] == 0.0
    assert status["events_audit"]["attempts_spent"] == 0
    for reserved in done.events("budget_reserved"):
        assert 0.0 < reserved["usd"] <= 0.05
    assert done.processes() == []

    done.command("unpause", "--raise-budget", "1")
    assert done.drive(API_KEY) == 0, done.narration()
    status = done.status()
    assert status["run_state"] == "completed"
    assert status["events_audit"]["attempts_spent"] == 0
    assert {event["attempt"] for event in done.events("stage_dispatched")} == {1}
    _assert_ledger_is_what_the_sessions_cost(done)


def test_a_reservation_that_is_used_up_is_extended_and_the_session_resumed(
    batch: Callable[[Model], Batch],
) -> None:
    """T2 takes many more turns than what T1 has taught."""

    def plod(request: Request) -> Reply | None:
        is_first = len(request.prompts) == 1
        if (request.task, request.stage) == ("T2", "implement") and is_first and request.turn < 12:
            return Turn((ToolUse("Bash", {"command": f"touch step{request.turn}"}),), usage=USAGE)
        return None

    done = batch(Model(instead=plod))
    done.make_run("T1", "T2", lane="micro", budget_usd="5", max_concurrent="1")
    assert done.drive(API_KEY) == 0, done.narration()

    first, *more = done.recorded("T2", "implement")
    assert (first["cause"], first["outcome"]) == ("budget", "again")
    assert more[-1]["outcome"] == "advanced"
    dispatches = [
        event
        for event in done.events("stage_dispatched")
        if (event["task_id"], event["stage"]) == ("T2", "implement")
    ]
    assert len({event["session_id"] for event in dispatches}) == 1
    assert {event["attempt"] for event in dispatches} == {1}
    assert [event.get("resume", False) for event in dispatches[:2]] == [False, True]
    learned = done.recorded("T1", "implement")[0]["cost"]["cost_usd"]
    reserved = [event["max_budget_usd"] for event in dispatches[:2]]
    assert reserved == pytest.approx([learned, 2 * learned], abs=1e-6)
    # The overshoot is one turn.
    assert learned < first["cost"]["cost_usd"] <= learned + TURN_USD + 1e-6
    assert done.status()["events_audit"]["attempts_spent"] == 0
    _assert_ledger_is_what_the_sessions_cost(done)
