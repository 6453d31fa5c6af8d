"""What follows what: the table is whole, and each row does what DESIGN's table says."""

from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import decide
from orchestrator.core.errors import InvariantBroken, StaleReport
from orchestrator.core.events import (
    CooldownStarted,
    DispatchReclaimed,
    Entry,
    KnownEvent,
    RetryScheduled,
    RunCreated,
    RunPaused,
    RunUnpaused,
    StageDispatched,
    StageRecorded,
    TaskFailed,
    TaskHeld,
    TaskRevived,
)
from orchestrator.core.fold import FOLDS, fold
from orchestrator.core.follows import FOLLOWS, Follow
from orchestrator.core.model import (
    Cause,
    Ending,
    HostIdentity,
    Outcome,
    Pipeline,
    Report,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    TaskStatus,
    WorkItemId,
)
from orchestrator.core.plan import plan
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import RunState
from orchestrator.core.transitions import TRANSITIONS
from tests.simulation.driving import task

NOW = 1_800_000_000.0
A = TaskId("a")
HOST = HostIdentity(hostname="h", machine_id="m", boot_id="b")
PROJECT = Project(name="p", root="/r")


class Run:
    """A run stepped by hand."""

    def __init__(self, *tasks: KnownEvent, settings: Settings | None = None) -> None:
        self.entries: list[Entry] = []
        self.now = NOW
        self.state: RunState = None  # type: ignore[assignment]
        self.add(RunCreated(settings=settings or Settings(), project=PROJECT), *tasks)

    def add(self, *events: KnownEvent) -> None:
        for event in events:
            entry = Entry(seq=len(self.entries) + 1, ts=self.now, run_id="r", event=event)
            self.entries.append(entry)
            self.state = fold(self.state, entry)

    def dispatch(self, task_id: TaskId = A, max_budget_usd: float | None = None) -> StageDispatched:
        t = self.state.tasks[task_id]
        number = t.dispatches.get((t.stage, t.attempt), 0) + 1
        event = StageDispatched(
            task_id=task_id,
            stage=t.stage,
            attempt=t.attempt,
            dispatch=number,
            work_item_id=WorkItemId(f"{task_id}/{t.stage}/a{t.attempt}/d{number}"),
            content_hash="h",
            lane="engine:none" if t.stage.is_deterministic else "headless:claude",
            host=HOST,
            timeout_s=60.0,
            branch="b",
            worktree="w",
            session_id=None if t.stage.is_deterministic else SessionId("s"),
            max_budget_usd=max_budget_usd,
        )
        self.add(event)
        return event

    def end(
        self, ending: Ending, task_id: TaskId = A, max_budget_usd: float | None = None
    ) -> Sequence[KnownEvent]:
        self.dispatch(task_id, max_budget_usd)
        return self.end_out(ending, task_id)

    def end_out(self, ending: Ending, task_id: TaskId = A) -> Sequence[KnownEvent]:
        """Of the dispatch that is out."""
        out = self.state.in_flight[task_id]
        report = Report(work_item_id=out.work_item_id, content_hash="h", ending=ending)
        events = decide(self.state, report, self.now)
        self.add(*events)
        return events

    def succeed_until(self, stage: Stage, task_id: TaskId = A) -> None:
        while self.state.tasks[task_id].stage is not stage:
            self.end(Ending(status=ResultStatus.SUCCESS), task_id)


def failing(cause: Cause, error: str = "why", **values: object) -> Ending:
    ending = Ending(status=ResultStatus.FAILURE, cause=cause, error=error)
    return msgspec.structs.replace(ending, **values)


def retry_of(events: Sequence[KnownEvent]) -> RetryScheduled:
    (retry,) = [event for event in events if isinstance(event, RetryScheduled)]
    return retry


def test_every_stage_and_cause_has_a_row() -> None:
    assert set(FOLLOWS) == {(stage, cause) for stage in Stage for cause in Cause}


def test_every_event_type_is_folded() -> None:
    known = set(KnownEvent.__args__)
    assert known - set(FOLDS) == {RunCreated}


@pytest.mark.parametrize("cause", [c for s, c in FOLLOWS if s is Stage.IMPLEMENT])
def test_only_a_verdict_about_the_work_spends_an_attempt(cause: Cause) -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(cause, resets_at=NOW + 5))
    spends = FOLLOWS[Stage.IMPLEMENT, cause] in {
        Follow.RETRY,
        Follow.IMPLEMENT,
        Follow.SEND_BACK,
        Follow.MORE_MONEY,  # no budget is set here: the stage's own cap holds
    }
    assert run.state.audit.attempts_spent == spends
    assert run.state.tasks[A].attempts[Stage.IMPLEMENT] == 1 + spends


def test_failing_tests_go_back_to_implement_in_its_own_session() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.TEST)
    events = run.end(failing(Cause.TESTS_FAILED, evidence={"failed": ["t1"], "learnings": "t1!"}))
    retry = retry_of(events)
    assert (retry.stage, retry.attempt, retry.fresh_session) == (Stage.IMPLEMENT, 2, False)
    assert "t1!" in run.state.tasks[A].learnings
    session = run.state.tasks[A].work_session
    assert session is not None
    assert session.id == "s"


def test_the_last_attempt_starts_a_fresh_session() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(Cause.WORK_ERROR, "one"))
    retry = retry_of(run.end(failing(Cause.NO_CHANGE, "two")))
    assert (retry.attempt, retry.fresh_session) == (3, True)
    assert run.state.tasks[A].work_session is None
    assert "one" in retry.learnings
    assert "two" in retry.learnings
    events = run.end(failing(Cause.WORK_ERROR, "three"))
    assert any(isinstance(event, TaskFailed) for event in events)


def test_two_failures_alike_in_a_row_end_the_task() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(Cause.WORK_ERROR, "error 12 at /tmp/x"))
    run.end(failing(Cause.WORK_ERROR, "error 99 at /tmp/y"))
    assert run.state.tasks[A].status is TaskStatus.FAILED


def test_a_stage_that_succeeds_between_breaks_the_row() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(Cause.WORK_ERROR, "same"))
    run.succeed_until(Stage.TEST)
    run.end(failing(Cause.TESTS_FAILED, evidence={"failed": ["t"]}))
    run.end(failing(Cause.WORK_ERROR, "same"))
    assert run.state.tasks[A].status is TaskStatus.FAILED  # attempts are used up by now
    assert "twice in the same way" not in run.state.tasks[A].reason


def test_review_sends_back_twice_at_most() -> None:
    run = Run(task("a"), settings=Settings(attempts_max=9))
    for number in (2, 3):
        run.succeed_until(Stage.REVIEW)
        retry = retry_of(run.end(failing(Cause.REJECTED, f"issue {number}")))
        assert (retry.stage, retry.attempt, retry.send_back) == (Stage.IMPLEMENT, number, True)
    run.succeed_until(Stage.REVIEW)
    run.end(failing(Cause.REJECTED, "still"))
    assert run.state.tasks[A].status is TaskStatus.FAILED


def test_infrastructure_is_tried_again_after_the_reset_and_twice_at_most() -> None:
    run = Run(task("a"))
    for delay_s in (10, 40):  # what is broken for a moment does not use up both
        retry = retry_of(run.end(failing(Cause.INFRASTRUCTURE, "no network")))
        assert (retry.spends_attempt, retry.run_reset, retry.attempt) == (False, True, 1)
        assert delay_s <= (retry.not_before or 0) - NOW <= 2 * delay_s
    run.end(failing(Cause.INFRASTRUCTURE, "no network"))
    assert run.state.tasks[A].status is TaskStatus.FAILED


def test_not_feasible_and_conflicts_wait_for_a_person() -> None:
    run = Run(task("a"), task("b"))
    run.succeed_until(Stage.SCOPE)
    events = run.end(failing(Cause.NOT_FEASIBLE, "no such module"))
    assert any(isinstance(event, TaskHeld) for event in events)
    run.end(failing(Cause.MERGE_CONFLICT, "conflict in x.py"), TaskId("b"))
    assert run.state.counts[TaskStatus.HELD] == 2


def test_a_limit_stops_all_until_its_reset() -> None:
    run = Run(task("a"), settings=Settings(limit_jitter_s=0.0))
    run.succeed_until(Stage.SCOPE)
    events = run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    (cooldown,) = [event for event in events if isinstance(event, CooldownStarted)]
    assert cooldown.until == NOW + 500
    assert run.state.cooldown_until == NOW + 500


def test_an_outage_waits_longer_each_time() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.SCOPE)
    waits = [(retry_of(run.end(failing(Cause.OUTAGE))).not_before or 0) - NOW for _ in range(8)]
    assert all(d <= wait <= d * 1.25 for d, wait in zip((60, 120, 240), waits, strict=False))
    assert 1800.0 <= waits[-1] <= 1800.0 * 1.25


def test_what_every_dispatch_would_meet_pauses_the_run_once() -> None:
    run = Run(task("a"), task("b"))
    run.succeed_until(Stage.SCOPE)
    run.succeed_until(Stage.SCOPE, TaskId("b"))
    run.dispatch(TaskId("b"))
    first = run.end(failing(Cause.AUTH, "log in"))
    assert [e.reason for e in first if isinstance(e, RunPaused)] == [
        "log in; then: orchestrator --run r unpause"
    ]
    lease = run.state.in_flight[TaskId("b")]
    report = Report(
        work_item_id=lease.work_item_id, content_hash="h", ending=failing(Cause.AUTH, "log in")
    )
    assert not any(isinstance(e, RunPaused) for e in decide(run.state, report, NOW))


def test_a_child_that_reaches_its_reservation_goes_on_while_the_budget_has_more() -> None:
    run = Run(task("a"), settings=Settings(budget_usd=10.0))
    run.succeed_until(Stage.IMPLEMENT)
    retry = retry_of(run.end(failing(Cause.BUDGET), max_budget_usd=1.0))
    assert (retry.attempt, retry.spends_attempt) == (1, False)


def three_alike() -> Run:
    run = Run(*(task(name) for name in "abcd"))
    for name in "abc":
        run.succeed_until(Stage.SCOPE, TaskId(name))
    for name in "ab":
        run.end(failing(Cause.WORK_ERROR, f"no such model at /x/{name}"), TaskId(name))
    assert run.state.audit.attempts_spent == 2
    return run


def test_the_same_failure_on_several_tasks_pauses_and_costs_no_attempt() -> None:
    run = three_alike()
    events = run.end(failing(Cause.WORK_ERROR, "no such model at /x/c"), TaskId("c"))
    (paused,) = [event for event in events if isinstance(event, RunPaused)]
    assert "3 tasks failed in the same way (a, b, c)" in paused.reason
    assert run.state.audit.attempts_spent == 0
    assert {run.state.tasks[TaskId(name)].attempt for name in "abc"} == {1}


def test_failing_tests_of_many_tasks_are_no_storm() -> None:
    run = Run(*(task(name) for name in "abc"), settings=Settings(failing_tasks_max=99))
    for name in "abc":
        run.succeed_until(Stage.TEST, TaskId(name))
        run.end(failing(Cause.TESTS_FAILED, evidence={"failed": ["t1"]}), TaskId(name))
    assert run.state.paused is None
    assert run.state.audit.attempts_spent == 3


def test_after_a_storm_one_canary_goes_first() -> None:
    run = three_alike()
    run.end(failing(Cause.WORK_ERROR, "no such model at /x/c"), TaskId("c"))
    run.add(RunUnpaused())
    four = Capacity(limit=4)
    starts = plan(run.state, now=NOW, capacity=four).starts
    (start,) = [start for start in starts if not start.stage.is_deterministic]
    canary = run.dispatch(start.task_id)
    assert plan(run.state, now=NOW, capacity=four).limited_by == "canary"
    success = Ending(status=ResultStatus.SUCCESS)
    report = Report(work_item_id=canary.work_item_id, content_hash="h", ending=success)
    run.add(*decide(run.state, report, NOW))
    assert len(plan(run.state, now=NOW, capacity=four).starts) == 4


def test_a_canary_that_fails_pauses_again_and_costs_nothing() -> None:
    run = three_alike()
    run.end(failing(Cause.WORK_ERROR, "no such model at /x/c"), TaskId("c"))
    run.add(RunUnpaused())
    run.end(failing(Cause.WORK_ERROR, "another thing"), TaskId("a"))
    assert run.state.paused is not None
    assert "the canary failed (a)" in run.state.paused
    assert run.state.audit.attempts_spent == 0


def test_a_limit_that_outlasts_its_reset_is_probed_less_and_less_often() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.SCOPE)
    waits = []
    for _ in range(4):
        run.now = max(run.now, run.state.cooldown_until or 0.0)
        run.end(failing(Cause.LIMIT, resets_at=NOW - 1))
        waits.append((run.state.cooldown_until or 0.0) - run.now)
    assert waits == [300.0, 600.0, 1200.0, 2400.0]


def test_a_crash_loop_ends() -> None:
    run = Run(task("a"), settings=Settings(dispatches_max=4))
    for _ in range(3):
        run.end(failing(Cause.CRASH))
    assert run.state.tasks[A].status is TaskStatus.COOLING
    run.end(failing(Cause.CRASH))
    assert run.state.tasks[A].status is TaskStatus.FAILED
    assert run.state.audit.attempts_spent == 0


def test_a_crash_loop_slows_down_and_a_first_crash_does_not() -> None:
    run = Run(task("a"), task("b"))
    waits = [retry_of(run.end(failing(Cause.CRASH))).not_before for _ in range(7)]
    assert waits[0] is None
    delays = [(at or 0.0) - NOW for at in waits[1:]]
    spread = delays[0] / 10.0
    assert delays == [pytest.approx(10.0 * 2.0**n * spread) for n in range(6)]
    assert 1.0 <= spread < 2.0
    run.end(failing(Cause.CRASH), TaskId("b"))
    other = retry_of(run.end(failing(Cause.CRASH), TaskId("b"))).not_before
    assert other != waits[1], "two that died together do not start together"


@pytest.mark.parametrize("how", ["harvested", "resumed"])
def test_what_ended_while_no_driver_lived_is_no_crash_loop_and_no_storm(how: str) -> None:
    run = Run(*(task(name) for name in "abcdef"), settings=Settings(storm_tasks_max=2))
    for name in "abc" * 2:
        out = run.dispatch(TaskId(name))
        run.add(DispatchReclaimed(task_id=out.task_id, work_item_id=out.work_item_id, how=how))
        report = Report(
            work_item_id=out.work_item_id, content_hash="h", ending=failing(Cause.CRASH)
        )
        events = decide(run.state, report, NOW)
        run.add(*events)
        assert retry_of(events).not_before is None
    assert run.state.paused is None


def test_an_interruption_by_ourselves_is_no_crash() -> None:
    run = Run(*(task(name) for name in "abcd"))
    for name in "abcd" * 3:
        assert retry_of(run.end(failing(Cause.INTERRUPTED), TaskId(name))).not_before is None
    assert run.state.paused is None


def test_deaths_of_several_tasks_are_a_storm_whatever_they_died_of() -> None:
    run = Run(*(task(name) for name in "abcd"))
    for name, error in (("a", "killed by SIGKILL"), ("b", "ended without a result (exit 0)")):
        run.end(failing(Cause.CRASH, error), TaskId(name))
    assert run.state.paused is None
    run.end(failing(Cause.CRASH, "killed by SIGSEGV while it ran Bash"), TaskId("c"))
    assert run.state.paused is not None
    assert "3 tasks failed in the same way (a, b, c)" in run.state.paused
    assert {run.state.tasks[TaskId(name)].crashes for name in "abc"} == {0}


def test_a_success_of_their_stage_says_that_deaths_are_no_storm() -> None:
    run = Run(*(task(name) for name in "abcd"))
    for name in "ab":
        run.end(failing(Cause.CRASH), TaskId(name))
    run.succeed_until(Stage.SCOPE, TaskId("d"))
    run.end(failing(Cause.CRASH), TaskId("c"))
    assert run.state.paused is None


def test_what_was_out_when_a_storm_was_known_loses_nothing_either() -> None:
    run = three_alike()
    again = run.dispatch(A)
    run.end(failing(Cause.WORK_ERROR, "no such model at /x/c"), TaskId("c"))
    assert run.state.audit.attempts_spent == 0
    ending = failing(Cause.WORK_ERROR, "no such model at /x/a")
    report = Report(work_item_id=again.work_item_id, content_hash="h", ending=ending)
    events = decide(run.state, report, NOW)
    run.add(*events)
    assert not any(isinstance(event, RunPaused) for event in events), "it is paused already"
    assert (run.state.tasks[A].status, run.state.tasks[A].attempt) == (TaskStatus.READY, 1)


def test_a_task_that_a_storm_ended_goes_on_with_what_waits_for_it() -> None:
    run = Run(task("a"), task("b"), task("c", "a"), settings=Settings(zero_work_max=0))
    for name in "ab":
        run.succeed_until(Stage.SCOPE, TaskId(name))
    for _ in range(2):
        run.end(failing(Cause.INVALID_OUTPUT, "none"), A)
    assert run.state.tasks[A].status is TaskStatus.FAILED
    assert run.state.tasks[TaskId("c")].status is TaskStatus.CASCADE_BLOCKED
    run.end(failing(Cause.INVALID_OUTPUT, "none"), TaskId("b"))
    events = run.end(failing(Cause.INVALID_OUTPUT, "none"), TaskId("b"))
    assert [e.task_id for e in events if isinstance(e, TaskRevived)] == [A]
    assert run.state.paused is not None
    assert run.state.audit.attempts_spent == 0
    assert (run.state.tasks[A].status, run.state.tasks[A].attempt) == (TaskStatus.READY, 1)
    assert run.state.tasks[TaskId("c")].status is TaskStatus.WAITING


def test_a_limits_canary_that_fails_by_itself_is_no_storm() -> None:
    run = Run(task("a"), task("b"))
    run.succeed_until(Stage.SCOPE)
    run.end(failing(Cause.LIMIT, resets_at=NOW + 5))
    run.end(failing(Cause.WORK_ERROR, "its own"))
    assert run.state.paused is None
    assert run.state.audit.attempts_spent == 1


def test_a_report_for_another_dispatch_is_stale() -> None:
    run = Run(task("a"))
    out = run.dispatch()
    good = Ending(status=ResultStatus.SUCCESS)
    for name, value in (("content_hash", "other"), ("work_item_id", "a/intake/a9/d9")):
        report = Report(work_item_id=out.work_item_id, content_hash="h", ending=good)
        with pytest.raises(StaleReport):
            decide(run.state, msgspec.structs.replace(report, **{name: value}), NOW)


@pytest.mark.parametrize("pipeline", list(Pipeline))
def test_a_pipeline_walks_its_stages(pipeline: Pipeline) -> None:
    run = Run(task("a", pipeline=pipeline))
    walked = []
    while run.state.tasks[A].status is not TaskStatus.COMPLETED:
        walked.append(run.state.tasks[A].stage)
        run.end(Ending(status=ResultStatus.SUCCESS))
    assert tuple(walked) == pipeline.stages
    assert run.entries[-1].event.outcome is Outcome.COMPLETED  # type: ignore[union-attr]


def test_no_status_leads_out_of_the_table() -> None:
    assert set(TRANSITIONS) == set(TaskStatus)


def test_an_event_out_of_place_breaks_the_fold() -> None:
    run = Run(task("a"))
    out = run.dispatch()
    with pytest.raises(InvariantBroken, match="event 4"):
        run.add(out)


def test_recording_twice_breaks_the_fold() -> None:
    run = Run(task("a"))
    events = run.end(Ending(status=ResultStatus.SUCCESS))
    (recorded,) = [e for e in events if isinstance(e, StageRecorded)]
    with pytest.raises(InvariantBroken, match="is not the dispatch"):
        run.add(recorded)
