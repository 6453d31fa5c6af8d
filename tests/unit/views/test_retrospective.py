"""A retrospective is made of the journal alone, and its parts add up."""

import msgspec
import pytest

from orchestrator.core.events import Entry, ForecastMade, KnownEvent, RunCreated, StageRecorded
from orchestrator.core.fold import replay
from orchestrator.core.futures import Drive, live_through
from orchestrator.core.model import (
    CallCost,
    Cause,
    ChildExit,
    Ending,
    ResultStatus,
    Stage,
    TaskStatus,
)
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import Lease, RunState
from orchestrator.views.cost_books import books_of
from orchestrator.views.retrospective import Retrospective, retrospective_of
from orchestrator.views.retrospective_text import retrospective_text
from orchestrator.views.text import WIDTH
from orchestrator.views.time_books import times_of
from tests.unit.cli.runs import added

SAID = ForecastMade(
    at=0.0, finish_at=(1_000.0, 1_100.0, 1_200.0), cost_usd=(1.0, 2.0, 3.0), samples=50
)


class Steady:
    """A Nature: each stage takes 100 s; a model's costs 1 USD; T2's tests always fail."""

    def ending(self, state: RunState, lease: Lease, now: float) -> Ending:
        fails = (lease.task_id, lease.stage) == ("T2", Stage.TEST)
        return Ending(
            status=ResultStatus.FAILURE if fails else ResultStatus.SUCCESS,
            cause=Cause.TESTS_FAILED if fails else None,
            error="1 test failed" if fails else "",
            cost=None if lease.stage.is_deterministic else CallCost(cost_usd=1.0),
            exit=ChildExit(duration_s=100.0),
            started_at=now,
            ended_at=now + 100.0,
        )


def driven(*, to_its_end: bool = True) -> list[Entry]:
    """T1, T2 and T4 may start; T3 waits for T1, and one slot serves all."""
    events: list[KnownEvent] = [
        RunCreated(settings=Settings(), project=Project(name="p", root="/p")),
        *(added("T1"), added("T2"), added("T3", "T1"), added("T4", "T2")),
        SAID,
    ]
    entries = [
        Entry(seq=seq, ts=0.0, run_id="r1", event=event) for seq, event in enumerate(events, 1)
    ]
    live_through(
        replay(entries),
        Steady(),
        now=0.0,
        drive=Drive(max_concurrent=1),
        heard=lambda _, entry: entries.append(entry),
    )
    return entries if to_its_end else entries[:30]


def looked_at(entries: list[Entry], now: float = 5_000.0) -> Retrospective:
    return retrospective_of(times_of(entries, now), books_of(entries), now=now)


def test_it_is_held_against_the_first_forecast() -> None:
    seen = looked_at(driven())
    assert seen.ended
    assert seen.score is not None
    assert (seen.began_at, seen.ended_at) == (0.0, seen.wall_s)
    assert seen.score.finished_at == seen.ended_at
    assert not seen.score.time_held
    assert not seen.score.cost_held


def test_what_took_the_time_is_what_was_run() -> None:
    entries = driven()
    seen = looked_at(entries)
    assert seen.time.running_s == sum(row.total_s for row in seen.stages) == seen.wall_s
    assert seen.idle_s == 0.0
    by_stage = {row.stage: row for row in seen.stages}
    assert by_stage[Stage.INTAKE].dispatches == 3
    assert by_stage[Stage.TEST].median_s == 100.0


def test_the_times_of_a_task_sum_to_its_life() -> None:
    times = times_of(driven(), 5_000.0)
    for each in times.tasks.values():
        assert sum(each.spent_s.values()) == pytest.approx(each.ended_at)


def test_what_failed_and_what_it_cost_is_said() -> None:
    seen = looked_at(driven())
    assert [(row.task_id, row.state) for row in seen.failed] == [
        ("T2", TaskStatus.FAILED),
        ("T4", TaskStatus.CASCADE_BLOCKED),
    ]
    assert list(seen.causes) == [Cause.TESTS_FAILED]
    assert sum(seen.money.waste.values()) == pytest.approx(seen.money.total_usd)
    assert sum(row.cost_usd for row in seen.stages) == pytest.approx(seen.money.total_usd)


def test_the_critical_path_ends_with_what_ended_last() -> None:
    assert [row.task_id for row in looked_at(driven()).critical_path] == ["T1", "T3"]


def test_a_run_that_goes_on_is_not_scored() -> None:
    entries = driven(to_its_end=False)
    seen = looked_at(entries, now=entries[-1].ts + 50.0)
    assert not seen.ended
    assert seen.score is None
    assert seen.wall_s == entries[-1].ts + 50.0
    assert "is scored when the run has ended" in retrospective_text(seen)


def test_a_run_that_has_not_begun_has_nothing_to_tell() -> None:
    seen = looked_at(driven()[:5])
    assert seen.began_at is None
    assert seen.stages == ()
    assert "goes on (created)" in retrospective_text(seen)


def test_the_text_fits_a_terminal() -> None:
    text = retrospective_text(looked_at(driven()))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "T2  failed at test" in text


def test_a_stage_that_took_no_time_has_no_row() -> None:
    seen = looked_at(driven())
    rows = {row.stage: row for row in seen.stages}
    once = msgspec.structs.replace(rows[Stage.REVIEW], dispatches=1, total_s=12.0)
    nothing = msgspec.structs.replace(rows[Stage.DELIVER], total_s=0.5)
    told = retrospective_text(msgspec.structs.replace(seen, stages=(once, nothing)))
    time, _, _ = told.partition("money")
    assert "12 s in 1 dispatch\n" in time
    assert "deliver" not in time
    assert "1 attempt spent" in retrospective_text(msgspec.structs.replace(seen, attempts_spent=1))


def test_what_no_test_has_checked_is_named() -> None:
    said = {"proves_nothing": "pytest fails on the base too (exit 1): No module named pytest"}
    entries = [
        msgspec.structs.replace(entry, event=msgspec.structs.replace(entry.event, evidence=said))
        if isinstance(entry.event, StageRecorded)
        and (entry.event.stage, entry.event.task_id) == (Stage.TEST, "T1")
        else entry
        for entry in driven()
    ]
    seen = looked_at(entries)
    assert list(seen.unchecked) == ["T1"]
    assert "unchecked  T1: pytest fails on the base too" in retrospective_text(seen)
    assert "unchecked" not in retrospective_text(looked_at(driven()))
