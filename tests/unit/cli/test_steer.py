"""What a person's command turns into, and what it is refused for."""

import pytest

from drivers.stepping import _next_start
from orchestrator.core import steer
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.events import RunFinalized, RunPaused, SettingsChanged
from orchestrator.core.model import Ending, ResultStatus, RunStatus, TaskId, TaskStatus
from orchestrator.core.settings import Settings
from orchestrator.core.slug import slug_of
from tests.unit.cli.runs import added, dispatched, failing, run_of, then
from tests.unit.test_decide import Run


def new(task: str, *depends_on: str) -> steer.NewTask:
    needs = tuple(TaskId(need) for need in depends_on)
    return steer.NewTask(id=TaskId(task), title=task, depends_on=needs)


def ids(*names: str) -> list[TaskId]:
    return [TaskId(name) for name in names]


def test_a_task_may_be_added_before_what_it_depends_on() -> None:
    state = run_of()
    then(state, steer.add_tasks(state, [new("B", "A")]))
    assert state.tasks[TaskId("B")].unmet == {"A"}
    assert dict(state.missing) == {"A": 1}
    then(state, steer.add_tasks(state, [new("A")]))
    assert not state.missing
    assert state.tasks[TaskId("A")].status is TaskStatus.READY


def test_a_dependency_that_the_source_reports_done_counts_as_completed() -> None:
    state = run_of()
    then(state, steer.add_tasks(state, [new("B", "A")], done=ids("A")))
    assert state.tasks[TaskId("B")].status is TaskStatus.READY


def test_what_the_run_itself_does_is_not_taken_from_the_source() -> None:
    state = run_of(added("A"))
    then(state, steer.add_tasks(state, [new("B", "A")], done=ids("A")))
    assert state.tasks[TaskId("B")].unmet == {"A"}


def test_a_cycle_is_refused_with_its_path() -> None:
    state = run_of(added("A", "C"), added("B", "A"))
    with pytest.raises(Refused) as refusal:
        steer.add_tasks(state, [new("C", "B")])
    assert any(path in str(refusal.value) for path in ("A -> C -> B -> A", "C -> B -> A -> C"))


def test_a_task_cannot_wait_for_itself() -> None:
    with pytest.raises(Refused, match="A -> A"):
        steer.add_tasks(run_of(), [new("A", "A")])


def test_a_task_is_added_once() -> None:
    with pytest.raises(Refused, match="in the run already"):
        steer.add_tasks(run_of(added("A")), [new("A")])


def test_what_is_added_behind_a_failed_task_is_blocked_with_all_that_waits_for_it() -> None:
    state = then(run_of(added("A"), added("C", "B")), failing("A"))
    then(state, steer.add_tasks(state, [new("D", "E"), new("B", "A"), new("E", "B")]))
    assert {
        task.id: task.status for task in state.tasks.values() if task.id != "A"
    } == dict.fromkeys(("B", "C", "D", "E"), TaskStatus.CASCADE_BLOCKED)
    assert state.is_settled


def test_slugs_do_not_collide() -> None:
    state = run_of()
    then(state, steer.add_tasks(state, [new("#12"), new("12"), new("a/b"), new("A B")]))
    assert list(state.slugs) == ["12", "12-2", "a-b", "A-B-2"]


@pytest.mark.parametrize(
    ("task_id", "slug"),
    [
        ("Größe", "Grosse"),
        ("Gro\u0308\u00dfe", "Grosse"),
        ("café/crème", "cafe-creme"),
        ("Łódź", "Lodz"),
        ("smørrebrød №7", "smorrebrod-No7"),
        ("任务", "task"),
        ("任务 2", "2"),
        ("T1-r\u0662", "T1-r"),
        ("T1-r²", "T1-r2_"),
    ],
)
def test_a_slug_reads_as_the_id_does(task_id: str, slug: str) -> None:
    assert slug_of(task_id, ()) == slug
    assert slug_of(task_id, (slug.upper(),)) == f"{slug}-2"


def test_a_slug_is_not_what_a_requeued_task_would_be_called() -> None:
    assert slug_of("T1-r2", ()) != "T1-r2"
    assert slug_of("../..", ()) == "task"
    assert len(slug_of("x" * 500, ())) <= 60


def test_settings_are_typed_and_named() -> None:
    state = run_of()
    pairs = {"max-concurrent": "5", "budget_usd": "2.5", "lane": "micro", "keep_worktrees": "yes"}
    then(state, steer.change_settings(state, pairs, by="me"))
    assert state.settings == Settings(
        max_concurrent=5, budget_usd=2.5, pipeline=state.settings.pipeline, keep_worktrees=True
    )
    assert state.settings.pipeline == "micro"
    assert steer.change_settings(state, pairs, by="me") == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("max_concurent", "5", "did you mean max_concurrent"),
        ("max_concurrent", "0", "between 1 and 1000"),
        ("max_concurrent", "2.5", "whole number"),
        ("budget_usd", "-1", "between 0"),
        ("budget_usd", "nan", "a number"),
        ("drain_s", "inf", "a number"),
        ("lane", "all", "full, lite, micro"),
        ("keep_worktrees", "maybe", "true or false"),
    ],
)
def test_a_bad_setting_says_what_was_meant(key: str, value: str, told: str) -> None:
    with pytest.raises(Usage, match=told):
        steer.change_settings(run_of(), {key: value}, by="")


def test_pausing_twice_is_one_event() -> None:
    state = run_of(added("A"))
    then(state, steer.pause(state, reason="lunch", by="me"))
    assert state.status is RunStatus.PAUSED
    assert steer.pause(state, reason="tea", by="me") == []
    then(state, steer.unpause(state, by="me"))
    assert state.paused is None
    assert steer.unpause(state, by="me") == []


def test_a_budget_is_raised_and_not_lowered() -> None:
    state = run_of(RunPaused(reason="budget"), settings=Settings(budget_usd=5.0))
    with pytest.raises(Refused, match="does not raise"):
        steer.raise_budget(state, "4", by="")
    assert steer.raise_budget(state, "9", by="") == [
        SettingsChanged(changes={"budget_usd": 9.0}, by="")
    ]


def test_a_stop_at_once_is_not_taken_back_to_a_drain() -> None:
    state = run_of(added("A"))
    then(state, steer.stop(state, how="drain", by=""))
    then(state, steer.stop(state, how="now", by=""))
    assert state.stop_requested == "now"
    assert steer.stop(state, how="drain", by="") == []


def test_a_stop_bars_by_hand_only_while_a_driver_lives_to_hear_it() -> None:
    state = run_of(added("A"))
    then(state, steer.stop(state, how="drain", by=""))
    task = state.tasks[TaskId("A")]
    with pytest.raises(Refused, match="say it again once its driver has ended"):
        _next_start(state, task, 1.0, resume=False, is_driven=True)
    assert _next_start(state, task, 1.0, resume=False, is_driven=False) is not None
    then(state, steer.pause(state, reason="lunch", by=""))
    with pytest.raises(Refused, match="paused: lunch"):
        _next_start(state, task, 1.0, resume=False, is_driven=False)


def test_a_run_that_has_ended_is_not_paused() -> None:
    state = run_of(added("A"))
    state = then(state, [*failing("A"), RunFinalized(state=RunStatus.FAILED)])
    with pytest.raises(Refused, match="has ended"):
        steer.pause(state, reason="", by="")
    with pytest.raises(Refused, match="has ended"):
        steer.unpause(state, by="")
    with pytest.raises(Refused, match="has ended"):
        steer.stop(state, how="now", by="")


def test_a_requeued_task_starts_anew_and_unblocks_what_waited_for_it() -> None:
    state = then(run_of(added("A"), added("B", "A")), failing("A"))
    then(state, steer.abandon(state, ["A"], reason="", live=()))
    assert state.tasks[TaskId("B")].status is TaskStatus.CASCADE_BLOCKED
    then(state, steer.requeue(state, ["A"], reason="again"))
    assert state.tasks[TaskId("A")].round == 2
    assert state.tasks[TaskId("A")].status is TaskStatus.READY
    assert state.tasks[TaskId("B")].status is TaskStatus.WAITING


def test_requeueing_what_is_blocked_names_what_blocks_it() -> None:
    state = run_of(added("A"), added("B", "A"))
    then(state, steer.abandon(state, ["A"], reason="", live=()))
    with pytest.raises(Refused, match="requeue A too"):
        steer.requeue(state, ["B"], reason="")
    then(state, steer.requeue(state, ["B", "A"], reason=""))
    assert state.tasks[TaskId("A")].status is TaskStatus.READY


def test_a_task_that_is_under_way_is_not_requeued() -> None:
    with pytest.raises(Refused, match="A is ready"):
        steer.requeue(run_of(added("A")), ["A"], reason="")


def test_giving_a_task_up_blocks_all_that_can_never_start() -> None:
    state = run_of(added("A"), added("B", "A"), added("C", "B"), added("D"))
    then(state, steer.abandon(state, ["A", "B"], reason="no", live=()))
    assert {task.id: task.status.value for task in state.tasks.values()} == {
        "A": "rejected",
        "B": "rejected",
        "C": "cascade_blocked",
        "D": "ready",
    }


def test_a_task_whose_process_runs_is_not_given_up() -> None:
    state = run_of(added("A"), dispatched("A"))
    with pytest.raises(Refused, match="stop --now"):
        steer.abandon(state, ["A"], reason="", live=ids("A"))
    then(state, steer.abandon(state, ["A"], reason="", live=()))
    assert not state.in_flight
    assert state.audit.abandoned == 1


def test_an_unknown_task_is_told_with_the_nearest() -> None:
    with pytest.raises(Refused, match=r"no task TASK-1.*did you mean TASK-12"):
        steer.requeue(run_of(added("TASK-12")), ["TASK-1"], reason="")


def test_a_task_is_found_by_its_slug_too() -> None:
    assert steer.find_task(run_of(added("#12")), "12").id == "#12"


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_tasks_requeued_together_still_wait_for_each_other(order: tuple[str, str]) -> None:
    run = Run(added("A"), added("B", "A"))
    for name in (TaskId("A"), TaskId("B")):
        while run.state.tasks[name].status is not TaskStatus.COMPLETED:
            run.end(Ending(status=ResultStatus.SUCCESS), name)
    run.add(*steer.requeue(run.state, order, reason=""))
    assert run.state.tasks[TaskId("A")].status is TaskStatus.READY
    assert run.state.tasks[TaskId("B")].status is TaskStatus.WAITING
    assert run.state.tasks[TaskId("B")].unmet == {TaskId("A")}
