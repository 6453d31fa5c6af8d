"""What a person sees: bounded, safe for a terminal, and always saying what to do next."""

import shlex
from typing import get_args

import msgspec
import pytest

from orchestrator.core.events import (
    Entry,
    Event,
    KnownEvent,
    RunPaused,
    StopRequested,
    TaskAdded,
    TaskHeld,
    Unknown,
    WindowObserved,
)
from orchestrator.core.model import Stage, TaskId, Window
from orchestrator.views.advice import Step, next_steps
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.moments import duration
from orchestrator.views.text import TASKS_SHOWN_MAX, driver_line, status_text
from orchestrator.views.timeline import TEXTS, activity, activity_line
from tests.unit.journal.events import NOW, added, dispatched, recorded
from tests.unit.views.test_status import DEAD, LIVE, run, status, whole_task


def steps(*events: KnownEvent, driver: DriverStatus = LIVE) -> list[Step]:
    return list(next_steps(status(run(*events), driver)))


def test_a_table_of_a_run_under_way() -> None:
    window = WindowObserved(windows=(Window(name="five_hour", utilization=0.5),))
    state = run(added("T1"), added("#2", depends_on=("T1",)), window, *whole_task("T1"))
    text = status_text(status(state))
    assert text.splitlines()[:4] == [
        "run r1: running; 1 ready, 1 completed",
        "driver   7: starting; heard 0 s ago",
        "cost     0.75 USD; 90% of the prompt tokens from cache",
        "windows  five_hour 50%",
    ]
    assert "\nT1    completed               0.75  orchestrator/r1/T1\n" in text
    assert "\n#2    ready      intake             next in line\n" in text
    assert text.endswith("    orchestrator --run r1 watch")


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_asked_except_commands(width: int) -> None:
    wild = TaskAdded(task_id=TaskId("T\x1b[31m1"), slug="t", title="very " * 50 + "\x07\n\r")
    text = status_text(status(run(wild, added("T2", depends_on=("X",) * 30)), DEAD), width=width)
    for line in text.splitlines():
        assert len(line) <= width or line.startswith("    orchestrator ")
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_end_of_a_reason_is_shown_where_it_says_how_to_mend_it() -> None:
    reason = "the branch 'orchestrator' in " + "/deep" * 20 + " blocks ours: rename it (git branch)"
    for event in (RunPaused(reason=reason), TaskHeld(task_id=TaskId("T1"), reason=reason)):
        text = status_text(status(run(added("T1"), event)), width=80)
        told = " ".join(text.partition("\n\n")[2].split())
        assert "blocks ours: rename it (git branch)" in told
        assert all(len(line) <= 80 for line in text.splitlines())


def test_of_very_many_tasks_the_urgent_are_shown() -> None:
    many = [added(f"T{n}") for n in range(TASKS_SHOWN_MAX + 50)]
    held = TaskHeld(task_id=TaskId(f"T{TASKS_SHOWN_MAX + 49}"), reason="look at this")
    text = status_text(status(run(*many, held)))
    assert "look at this" in text
    assert "… and 50 more: --json shows all" in text
    assert len(text.splitlines()) < TASKS_SHOWN_MAX + 20


def test_who_does_not_drive_is_told_how() -> None:
    assert steps(driver=DriverStatus()) == [
        Step(
            "there are no tasks in the run; once they are written down, add them",
            "orchestrator --run r1 add-task --all",
        )
    ]
    (step,) = steps(added("T1"), driver=DriverStatus())
    assert step.command == "orchestrator --run r1 run-headless --wait"
    (step,) = steps(added("T1"), dispatched("T1", Stage.INTAKE), driver=DEAD)
    assert step.why == "driver 7 is dead; it left 1 dispatch, to be taken up; drive the run"
    foreign = DriverStatus(state="foreign", host="elsewhere", pid=7)
    (step,) = steps(added("T1"), driver=foreign)
    assert step.command.endswith("run-headless --wait --take-over")


def test_commands_are_one_line_that_can_be_pasted() -> None:
    state = run(added("#12"), TaskHeld(task_id=TaskId("#12"), reason="it is\nnot feasible"))
    found = next_steps(status(state), program=("orchestrator", "--root", "/a b"))
    assert shlex.split(found[-2].command) == [
        "orchestrator", "--root", "/a b", "--run", "r1", "requeue", "#12",
    ]  # fmt: skip
    assert all("\n" not in step.command for step in found)


def test_a_pause_comes_first() -> None:
    found = steps(added("T1"), RunPaused(reason="the budget is spent"), driver=DriverStatus())
    assert found[0] == Step("paused: the budget is spent; go on", "orchestrator --run r1 unpause")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (99, "99 s"), (100, "2 min"), (6000, "1 h 40")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_event_has_its_row_in_the_timeline() -> None:
    assert set(TEXTS) == {*get_args(KnownEvent), Unknown}


def test_an_event_is_one_line() -> None:
    def line(event: Event) -> str:
        row = activity(Entry(seq=1, ts=NOW, run_id="r1", event=event))
        return activity_line(row)[10:] if row else ""

    assert line(dispatched("T1", attempt=2)) == "T1            implement begins, attempt 2"
    assert line(recorded("T1")) == "T1            implement done in 12 s, 0.25 USD"
    assert line(RunPaused(reason="a\n\x1bb" * 100)).isprintable()
    assert len(line(RunPaused(reason="a" * 1000))) < 200
    assert line(Unknown(type="x")) == "-             x (of a newer version)"
    assert line(WindowObserved(windows=())) == ""


def test_what_has_been_said_is_not_said_twice() -> None:
    signalled = DriverStatus(state="exited", exit_signal="SIGINT", exit_reason="signal SIGINT")
    assert driver_line(signalled) == "driver   ended by SIGINT"
    ended = DriverStatus(state="exited", exit_reason="paused: lunch; go on: orchestrator unpause")
    text = status_text(status(run(added("T1"), RunPaused(reason="lunch")), ended))
    assert text.startswith("run r1: paused (lunch); 1 ready\n")
    assert "the driver has ended; drive the run" in text
    assert "unpause" not in text.partition("next:")[0]
    why = "log in; then: orchestrator --run r1 unpause"
    text = status_text(status(run(added("T1"), RunPaused(reason=why)), ended))
    assert text.startswith("run r1: paused (log in); 1 ready\n")
    assert text.count("unpause") == 1


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("paused: lunch; go on: orchestrator --run r1 unpause", "paused: lunch"),
        (
            "budget: 1.00 of 1.00 USD are spent; raise it: orchestrator --run r1 unpause "
            "--raise-budget 2",
            "budget: 1.00 of 1.00 USD are spent",
        ),
        (
            "budget: T1 has cost 1.00 USD, raise it: orchestrator --run r1 set --task T1 "
            "budget_usd 2; T2 has cost 1.00 USD, raise it: orchestrator --run r1 set x 2",
            "budget: T1 has cost 1.00 USD; T2 has cost 1.00 USD",
        ),
        ("completed_with_rejections", "completed, but for what was abandoned"),
    ],
)
def test_what_a_driver_advised_is_past(reason: str, told: str) -> None:
    driver = DriverStatus(state="exited", exit_reason=reason)
    assert driver_line(driver) == f"driver   ended: {told}"


def test_a_run_that_nobody_works_on_is_not_called_running() -> None:
    begun = (added("T1"), dispatched("T1", Stage.INTAKE), recorded("T1", Stage.INTAKE))
    stopped = run(*begun, StopRequested(how="now"))
    exited = DriverStatus(state="exited", exit_reason="stopped")
    for state, driver, headline in (
        (stopped, exited, "run r1: stopped (stop --now); 1 ready"),
        (stopped, LIVE, "run r1: running (stop --now was asked for); 1 ready"),
        (run(*begun), DEAD, "run r1: stopped; 1 ready"),
        (run(*begun), DriverStatus(), "run r1: running; 1 ready"),
        (run(*begun[:2]), DEAD, "run r1: stopped; 1 interrupted"),
    ):
        assert status_text(status(state, driver)).splitlines()[0] == headline


def test_how_long_it_has_run_is_not_said_of_what_nobody_saw_end() -> None:
    out = run(added("T1"), dispatched("T1", Stage.INTAKE))
    of_t1 = [
        next(line for line in status_text(status(out, driver)).splitlines() if line[:2] == "T1")
        for driver in (LIVE, DEAD)
    ]
    assert [" s " in row or " min " in row for row in of_t1] == [True, False], of_t1


def test_a_driver_that_waits_for_hands_waits_for_no_children() -> None:
    by_hand = msgspec.structs.replace(
        LIVE, last_state="waiting_on_children", waits_for="by hand: T1"
    )
    assert driver_line(by_hand).startswith("driver   7: waiting (by hand: T1); heard")
