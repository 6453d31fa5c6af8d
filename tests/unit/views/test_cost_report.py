"""The cost report: one class of waste per call, and every grouping sums to the ledger."""

import csv
import io
from itertools import combinations

import msgspec
import pytest

from orchestrator.core.events import (
    AttemptRefunded,
    KnownEvent,
    StageRecorded,
    TaskAbandoned,
    TaskFailed,
    TaskRequeued,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import CallCost, Cause, ModelUsage, Outcome, Stage, TaskId
from orchestrator.journal.codec import encode_commit
from orchestrator.views.cost_books import CostBooks, Waste, books_of, shared_out
from orchestrator.views.cost_report import BY, cost_report, report_csv, report_text
from tests.unit.journal.events import NOW, added, created, dispatched, recorded

T1 = TaskId("T1")


def books(*events: KnownEvent) -> CostBooks:
    return books_of(encode_commit([created(), *events], after_seq=0, run_id="r1", now=NOW)[1])


def waste_of(*events: KnownEvent) -> dict[Waste, float]:
    report = cost_report(books(*events), ["waste"], run_id="r1", now=NOW)
    return {waste: usd for waste, usd in report.waste.items() if usd}


def call(task: str = "T1", outcome: Outcome = Outcome.ADVANCED, **more: object) -> StageRecorded:
    return msgspec.structs.replace(recorded(task, outcome=outcome), **more)


@pytest.mark.parametrize(
    ("outcome", "cause", "waste"),
    [
        (Outcome.ADVANCED, None, Waste.USEFUL),
        (Outcome.COMPLETED, None, Waste.USEFUL),
        (Outcome.HELD, Cause.NOT_FEASIBLE, Waste.USEFUL),
        (Outcome.AGAIN, Cause.BUDGET, Waste.USEFUL),
        (Outcome.RETRY, Cause.WORK_ERROR, Waste.RETRY),
        (Outcome.SENT_BACK, Cause.REJECTED, Waste.RETRY),
        (Outcome.AGAIN, Cause.LIMIT, Waste.WAITING),
        (Outcome.AGAIN, Cause.CRASH, Waste.WAITING),
        (Outcome.AGAIN, Cause.INTERRUPTED, Waste.WAITING),
    ],
)
def test_a_call_is_of_the_class_that_its_end_says(
    outcome: Outcome, cause: Cause | None, waste: Waste
) -> None:
    assert waste_of(call(outcome=outcome, cause=cause)) == {waste: 0.25}


@pytest.mark.parametrize(
    "ending",
    [
        TaskFailed(task_id=T1, stage=Stage.IMPLEMENT, reason=""),
        TaskAbandoned(task_id=T1),
        TaskRequeued(task_id=T1, round=2),
    ],
)
def test_what_was_done_for_nothing_is_discarded_and_what_comes_after_is_not(
    ending: KnownEvent,
) -> None:
    before = [call(), call(outcome=Outcome.RETRY), call(outcome=Outcome.AGAIN)]
    assert waste_of(*before, call("T2"), ending, call()) == {
        Waste.DISCARDED: 0.75,
        Waste.USEFUL: 0.5,
    }


def test_an_attempt_that_a_storm_took_was_waiting() -> None:
    given_back = AttemptRefunded(task_id=T1, stage=Stage.IMPLEMENT, attempt=1)
    assert waste_of(call(outcome=Outcome.RETRY), given_back) == {Waste.WAITING: 0.25}


def test_a_call_of_several_models_is_split_and_counted_once() -> None:
    cost = CallCost(
        cost_usd=0.3,
        input_tokens=40,
        output_tokens=7,
        by_model={
            "opus": ModelUsage(input_tokens=30, output_tokens=5, cost_usd=0.2),
            "haiku": ModelUsage(input_tokens=10, output_tokens=2, cost_usd=0.1),
        },
    )
    report = cost_report(books(call(cost=cost)), ["model"], run_id="r1", now=NOW)
    told = [(row.model, row.cost_usd, row.calls, row.input_tokens) for row in report.rows]
    assert told == [("opus", 0.2, 1, 30), ("haiku", 0.1, 0, 10)]


def test_effort_is_that_of_the_dispatch() -> None:
    hard = msgspec.structs.replace(dispatched("T1"), effort="high")
    report = cost_report(
        books(hard, call(), dispatched("T1"), call()), ["effort"], run_id="", now=0
    )
    assert sorted((row.effort, row.calls) for row in report.rows) == [("", 1), ("high", 1)]


def test_estimates_and_calls_that_never_began_are_told_apart() -> None:
    guessed = CallCost(cost_usd=0.1, metered=False)
    report = cost_report(books(call(cost=guessed), call(cost=None)), [], run_id="r1", now=NOW)
    total = report.total
    assert (total.calls, total.unmetered_calls, total.cost_usd) == (2, 1, 0.1)
    assert total.unmetered_usd == 0.1


@pytest.mark.parametrize("number", range(len(BY) + 1))
def test_every_grouping_sums_to_the_ledger(number: int) -> None:
    events: list[KnownEvent] = [added("T1")]
    events += [dispatched("T1", Stage.INTAKE), recorded("T1", Stage.INTAKE)]
    events += [dispatched("T1", Stage.SCOPE), recorded("T1", Stage.SCOPE, cost_usd=1 / 3)]
    events += [dispatched("T1"), recorded("T1", cost_usd=0.1000001)]
    entries = encode_commit([created(), *events], after_seq=0, run_id="r1", now=NOW)[1]
    ledger = replay(entries).totals.cost_usd
    for by in combinations(BY, number):
        report = cost_report(books_of(entries), by, run_id="r1", now=NOW)
        assert sum(row.cost_usd for row in report.rows) == pytest.approx(ledger, abs=1e-6)
        assert sum(row.calls for row in report.rows) == report.total.calls == 2
        assert report.total.cost_usd == pytest.approx(ledger, abs=1e-6)


def test_a_person_reads_the_dearest_first_and_what_was_not_useful() -> None:
    found = books(call(), call("T2", outcome=Outcome.RETRY), call("T2"), call("T2"))
    text = report_text(cost_report(found, ["task"], run_id="r1", now=NOW)).splitlines()
    assert text[0].split() == [
        *("task", "calls", "usd", "share", "in", "out", "cached", "estimated", "wall")
    ]
    assert text[1].split()[:4] == ["T2", "3", "0.7500", "75%"]
    assert text[2].split()[:4] == ["T1", "1", "0.2500", "25%"]
    assert text[4].split()[:4] == ["total", "4", "1.0000", "100%"]
    assert text[-1] == "not useful: 25% of it (retry 0.2500 USD)"


def test_csv_is_read_back_by_whoever_reads_csv() -> None:
    odd = added('a,"b')
    found = books(odd, msgspec.structs.replace(recorded('a,"b'), task_id=TaskId('a,"b')), call())
    text = report_csv(cost_report(found, ["task", "stage"], run_id="r1", now=NOW))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert text.count("task,") == 1
    assert text.endswith("\r\n")
    assert {row["task"] for row in rows} == {'a,"b', "T1"}
    assert sum(float(row["cost_usd"]) for row in rows) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("whole", "weights"),
    [(10, {"a": 1.0, "b": 1.0, "c": 1.0}), (7, {"a": 0.0, "b": 0.0}), (5, {"a": 0.0, "b": 3.0})],
)
def test_what_is_shared_out_sums_to_the_whole(whole: int, weights: dict[str, float]) -> None:
    assert sum(shared_out(whole, weights).values()) == whole
