"""Changing a run while it runs: what is written, what it leads to, and how it is taken back."""

from collections.abc import Sequence

import pytest

from drivers.headless.stalled import ends_stalled, why_stalled
from orchestrator.core import pausing, steer
from orchestrator.core.admission import PASSED_OVER_MAX, Admission, Bar
from orchestrator.core.capacity import Capacity
from orchestrator.core.choice import effort_of, model_of
from orchestrator.core.decide import decide
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.events import (
    KnownEvent,
    RunFinalized,
    SettingsChanged,
    TaskChanged,
)
from orchestrator.core.graph import VOID_MAX, best_first, is_live_ready
from orchestrator.core.model import (
    Cause,
    Ending,
    Mode,
    Report,
    ResultStatus,
    RunStatus,
    Stage,
    TaskId,
    TaskStatus,
)
from orchestrator.core.plan import Plan, plan
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.core.undo import undo
from orchestrator.views.changes import changes_text, history
from tests.unit.cli.runs import added, dispatched, run_of, then
from tests.unit.test_decide import NOW, Run

ONE, TWO, THREE = TaskId("T1"), TaskId("T2"), TaskId("T3")
SUCCESS = Ending(status=ResultStatus.SUCCESS)


def set_(state: RunState, *words: str, by: str = "me") -> RunState:
    return then(state, steer.change_settings(state, pairs(words), by=by))


def set_task(state: RunState, task: str, *words: str, by: str = "me") -> RunState:
    return then(state, steer.change_task(state, task, pairs(words), by=by))


def pairs(words: Sequence[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def pause(
    state: RunState, *tasks: str, lanes: Sequence[str] = (), reason: str = "lunch", by: str = "me"
) -> list[KnownEvent]:
    return pausing.pause_parts(state, tasks, lanes, reason=reason, by=by)


def unpause(state: RunState, *tasks: str, lanes: Sequence[str] = ()) -> list[KnownEvent]:
    return pausing.unpause_parts(state, tasks, lanes, reason="", by="me")


def due(state: RunState, *, limit: int = 3) -> Plan:
    return plan(state, now=NOW, capacity=Capacity(limit=limit))


def starting(state: RunState, *, limit: int = 3) -> list[str]:
    return [start.task_id for start in due(state, limit=limit).starts]


# -- what is written ------------------------------------------------------------------------------


def test_models_and_efforts_are_set_by_stage() -> None:
    state = set_(run_of(added("T1")), "models.implement", "opus", "models.default", "haiku")
    set_(state, "efforts.review", "high")
    task = state.tasks[ONE]
    assert [model_of(state, task, stage) for stage in (Stage.SCOPE, Stage.IMPLEMENT)] == [
        "haiku",
        "opus",
    ]
    assert effort_of(state, task, Stage.REVIEW) == "high"
    set_(state, "models.implement", "default", "efforts.review", "none")
    assert model_of(state, task, Stage.IMPLEMENT) == "haiku"
    assert state.settings == Settings(models={"default": "haiku"})


def test_the_value_default_puts_a_setting_back() -> None:
    state = run_of(settings=Settings(max_concurrent=9, budget_usd=5.0, paused_lanes=("x:y",)))
    set_(state, "max_concurrent", "default", "budget_usd", "default", "paused_lanes", "default")
    assert state.settings == Settings()


def test_lanes_are_set_whole() -> None:
    state = set_(run_of(), "paused_lanes", "engine:none, headless:claude")
    assert state.settings.paused_lanes == ("headless:claude", "engine:none")
    assert (
        steer.change_settings(state, {"paused_lanes": "headless:claude,engine:none"}, by="") == []
    )
    assert set_(state, "paused_lanes", "none").settings.paused_lanes == ()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("models.implment", "opus", r"no stage implment .*mean implement\?.*models\.review"),
        ("models", "opus", r"by stage, as models\.default, models\.scope"),
        ("models.intake", "opus", "no stage intake"),
        ("models.scope", "two words", "a model's name"),
        ("models.scope", "--flag", "a model's name"),
        ("models.scope", "m" * 201, "a model's name, not 'm{40}…'"),
        ("efforts.review", "hihg", "low, medium, high, xhigh or max"),
        ("model.scope", "opus", r"did you mean models\.scope"),
        ("max_concurrent.scope", "2", "no setting"),
        ("paused_lanes", "headless:cluade", "did you mean headless:claude"),
        ("max_concurrent", "1" * 400, "whole number"),
    ],
)
def test_a_bad_setting_says_what_was_meant(key: str, value: str, told: str) -> None:
    with pytest.raises(Usage, match=told):
        steer.change_settings(run_of(), {key: value}, by="")


def test_of_one_task_model_effort_priority_and_budget_are_set_and_given_back() -> None:
    state = set_(run_of(added("T1"), added("T2")), "models.default", "opus")
    set_task(state, "T1", "model", "haiku", "effort", "max", "priority", "-3", "budget_usd", "2")
    task = state.tasks[ONE]
    assert (model_of(state, task, Stage.SCOPE), effort_of(state, task, Stage.SCOPE)) == (
        "haiku",
        "max",
    )
    assert (task.priority, task.budget_usd) == (-3, 2.0)
    assert model_of(state, state.tasks[TWO], Stage.SCOPE) == "opus"
    set_task(state, "T1", "model", "default", "effort", "none", "priority", "none")
    set_task(state, "T1", "budget_usd", "default")
    assert model_of(state, task, Stage.SCOPE) == "opus"
    assert (task.model, task.effort, task.priority, task.budget_usd) == (None, None, 0, None)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("priorty", "1", "did you mean priority"),
        ("priority", "1.5", "whole number"),
        ("priority", "10000000", "between"),
        ("effort", "hard", "low, medium, high"),
        ("paused", "perhaps", "true or false"),
        ("max_concurrent", "3", "cannot be set for one task"),
    ],
)
def test_a_bad_setting_of_one_task_says_what_was_meant(key: str, value: str, told: str) -> None:
    with pytest.raises(Usage, match=told):
        steer.change_task(run_of(added("T1")), "T1", {key: value}, by="")


def test_a_change_says_who_and_why() -> None:
    state = run_of(added("T1"))
    (event,) = steer.change_settings(state, {"max_concurrent": "5"}, by="me", reason="late")
    assert event == SettingsChanged(changes={"max_concurrent": 5}, by="me", reason="late")
    (told,) = steer.change_task(state, "T1", {"priority": "5"}, by="me", reason="first")
    assert told == TaskChanged(task_id=ONE, changes={"priority": 5}, by="me", reason="first")


# -- what is merged, and what older journals say --------------------------------------------------


def test_two_who_change_different_stages_do_not_undo_each_other() -> None:
    state = run_of(settings=Settings(models={"scope": "haiku"}))
    both = [
        *steer.change_settings(state, {"models.implement": "opus"}, by="a"),
        *steer.change_settings(state, {"models.review": "sonnet"}, by="b"),
    ]
    then(state, both)
    assert state.settings.models == {"scope": "haiku", "implement": "opus", "review": "sonnet"}


def test_what_an_older_version_has_written_still_holds() -> None:
    """Without ``command`` and ``undoes``, and with a task's budget alone."""
    state = run_of(
        added("T1"),
        SettingsChanged(changes={"budget_usd": 9.0, "pipeline": "lite"}, by="me"),
        TaskChanged(task_id=ONE, changes={"budget_usd": 2.0}),
    )
    assert (state.settings.budget_usd, state.settings.pipeline) == (9.0, "lite")
    assert state.tasks[ONE].budget_usd == 2.0
    then(state, undo(state, 1, by="me"))
    assert (state.settings.budget_usd, state.settings.pipeline) == (None, "full")


# -- priority -------------------------------------------------------------------------------------


def test_a_priority_goes_before_the_critical_path_and_at_once() -> None:
    state = run_of(added("T1"), added("T2"), added("T3"), added("T4", "T1"))
    assert starting(state) == ["T1", "T2", "T3"]
    set_task(state, "T3", "priority", "1")
    assert starting(state) == ["T3", "T1", "T2"]
    set_task(state, "T1", "priority", "-1")
    assert starting(state) == ["T3", "T2", "T1"]
    set_task(set_task(state, "T3", "priority", "0"), "T1", "priority", "default")
    assert starting(state) == ["T1", "T2", "T3"]


def test_a_task_has_its_priority_when_it_becomes_ready_later() -> None:
    run = Run(added("T1"), added("T2"), added("T3", "T1"))
    run.add(*steer.change_task(run.state, "T3", {"priority": "9"}, by=""))
    for _ in Stage:
        run.end(SUCCESS, ONE)
    assert starting(run.state, limit=1) == ["T3"]


# -- pausing tasks --------------------------------------------------------------------------------


def test_of_a_paused_task_nothing_new_starts_and_what_depends_on_it_waits() -> None:
    state = run_of(added("T1"), added("T2"), added("T3", "T1"))
    then(state, pause(state, "T1"))
    assert starting(state) == ["T2"]
    assert state.tasks[ONE].status is TaskStatus.READY
    assert state.tasks[THREE].status is TaskStatus.WAITING
    then(state, unpause(state, "T1"))
    assert starting(state) == ["T1", "T2"]


def test_what_a_paused_task_has_at_work_goes_on_and_nothing_follows_it() -> None:
    run = Run(added("T1"), added("T2"))
    item = run.dispatch(ONE).work_item_id
    run.add(*pause(run.state, "T1"))
    assert run.state.tasks[ONE].status is TaskStatus.RUNNING
    run.add(*decide(run.state, Report(work_item_id=item, content_hash="h", ending=SUCCESS), NOW))
    assert run.state.tasks[ONE].stage is Stage.SCOPE
    assert starting(run.state) == ["T2"]
    run.add(*unpause(run.state, "T1"))
    assert set(starting(run.state)) == {"T1", "T2"}


def test_a_paused_task_that_cools_does_not_start_when_its_time_is_over() -> None:
    run = Run(added("T1"), settings=Settings(retry_delay_s=5.0))
    run.end(SUCCESS, ONE)
    run.end(
        Ending(status=ResultStatus.FAILURE, cause=Cause.WORK_ERROR, error="no", ended_at=NOW), ONE
    )
    assert run.state.tasks[ONE].status is TaskStatus.COOLING
    assert due(run.state).wake_at == NOW + 5.0
    run.add(*pause(run.state, "T1"))
    later = NOW + 60.0
    found = plan(run.state, now=later, capacity=Capacity(limit=1))
    assert (found.starts, found.wake_at, found.stalled) == ((), None, "paused_tasks")
    run.add(*unpause(run.state, "T1"))
    assert plan(run.state, now=later, capacity=Capacity(limit=1)).starts


def test_a_paused_task_stays_paused_when_it_is_done_again() -> None:
    run = Run(added("T1"))
    for _ in Stage:
        run.end(SUCCESS, ONE)
    run.add(*steer.requeue(run.state, ["T1"], reason=""))
    run.add(*pause(run.state, "T1"))
    run.add(*steer.abandon(run.state, ["T1"], reason="", live=()))
    assert not run.state.set_aside
    run.add(*steer.requeue(run.state, ["T1"], reason=""))
    assert starting(run.state) == []
    assert run.state.set_aside == {ONE}
    run.add(*unpause(run.state, "T1"))
    assert starting(run.state) == ["T1"]


def test_a_plan_costs_the_same_however_many_tasks_are_paused() -> None:
    """None of them is looked at, nor what pausing them has left in the heap."""
    names = [f"P{i}" for i in range(1000)]
    state = run_of(*(added(name) for name in names), added("first"), added("last"))
    set_task(set_task(state, "last", "priority", "-9"), "first", "priority", "9")
    then(state, pause(state, *names))
    assert starting(state) == ["first", "last"]
    assert len(state.ready) <= VOID_MAX + 4
    assert [state.tasks[name].status for name in map(TaskId, names)] == [TaskStatus.READY] * 1000
    then(state, unpause(state, *names))
    assert starting(state) == ["first", "P0", "P1"]


def test_other_tasks_go_on_behind_more_paused_ones_than_a_plan_looks_past() -> None:
    names = [f"P{i}" for i in range(2 * PASSED_OVER_MAX)]
    state = run_of(*(added(name) for name in names), added("last"))
    then(state, pause(state, *names))
    assert starting(state) == ["last"]


def test_changing_a_priority_again_and_again_leaves_no_heap_of_void_entries() -> None:
    state = run_of(added("T1"), added("T2"))
    for priority in range(1, 500):
        set_task(state, "T1", "priority", str(priority))
    assert len(state.ready) <= VOID_MAX + 8
    assert [i[3] for i in best_first(state.ready) if is_live_ready(state, i)] == ["T1", "T2"]


def test_where_only_paused_tasks_are_left_they_are_named_with_the_command() -> None:
    state = run_of(*(added(f"T{i}") for i in range(1, 6)), added("T9", "T1"))
    then(state, pause(state, "T5", "T4", "T3", "T2", "T1"))
    found = due(state)
    assert (found.starts, found.limited_by, found.stalled) == ((), "paused_tasks", "paused_tasks")
    assert why_stalled(state, found.stalled) == (
        "paused: T1 (lunch), T2 (lunch), T3 (lunch), and 2 tasks more;"
        " go on: orchestrator --run r1 unpause --task T1 T2 T3"
    )
    assert ends_stalled(found, wait=False)
    assert not ends_stalled(found, wait=True)
    assert ends_stalled(Plan(stalled="paused"), wait=True)


def test_a_plan_that_starts_nothing_for_another_reason_does_not_name_what_is_paused() -> None:
    state = run_of(added("T1"), added("T2"), dispatched("T1"))
    then(state, pause(state, "T2"))
    found = due(state)
    assert (found.limited_by, found.stalled) == ("paused_tasks", "")
    then(state, unpause(state, "T2"))
    assert due(state, limit=1).limited_by == "max_concurrent"


def test_pausing_is_refused_where_it_means_nothing() -> None:
    run = Run(added("T1"), added("T2"))
    with pytest.raises(Refused, match="no task T7"):
        pause(run.state, "T1", "T7")
    with pytest.raises(Usage, match="did you mean headless:claude"):
        pause(run.state, lanes=["headles:claude"])
    for _ in Stage:
        run.end(SUCCESS, ONE)
    with pytest.raises(Refused, match="T1 is completed"):
        pause(run.state, "T1")
    run.add(*steer.abandon(run.state, ["T2"], reason="", live=()))
    run.add(RunFinalized(state=RunStatus.COMPLETED_WITH_REJECTIONS))
    with pytest.raises(Refused, match="has ended"):
        pause(run.state, "T2")
    with pytest.raises(Refused, match="has ended"):
        unpause(run.state, "T2")


def test_pausing_twice_is_one_event() -> None:
    state = run_of(added("T1"))
    then(state, pause(state, "T1", lanes=["engine:none"]))
    again = pausing.pause_parts(state, ["T1"], ["engine:none"], reason="", by="")
    assert again == []
    assert steer.change_task(state, "T1", {"paused": "yes"}, by="") == []
    then(state, unpause(state, "T1", lanes=["engine:none", "headless:claude"]))
    assert unpause(state, "T1", lanes=["engine:none"]) == []
    assert state.settings.paused_lanes == ()


# -- pausing lanes --------------------------------------------------------------------------------


def in_scope(*names: str) -> Run:
    run = Run(*(added(name) for name in names))
    for name in names:
        run.end(SUCCESS, TaskId(name))
    return run


def test_on_a_paused_lane_nothing_starts_and_the_others_go_on() -> None:
    run = in_scope("T1")
    run.add(added("T2"))
    state = run.state
    then(state, pause(state, lanes=["headless:claude"]))
    assert starting(state) == ["T2"]
    then(state, [*unpause(state, lanes=["headless:claude"])])
    then(state, pause(state, lanes=["engine:none"]))
    assert starting(state) == ["T1"]
    assert due(state).limited_by == "lane:engine:none"


def test_while_the_models_lane_is_paused_no_more_is_taken_in_than_can_be_at_work() -> None:
    run = in_scope("T1", "T2")
    run.add(*(added(f"N{i}") for i in range(5)))
    run.add(*pause(run.state, lanes=["headless:claude"]))
    assert len(starting(run.state, limit=3)) == 1
    assert starting(run.state, limit=2) == []


def test_where_only_a_paused_lane_is_left_it_is_named_with_the_command() -> None:
    run = in_scope("T1")
    run.add(*pause(run.state, lanes=["headless:claude"]))
    found = due(run.state)
    assert found.stalled == found.limited_by == "lane:headless:claude"
    assert why_stalled(run.state, found.stalled) == (
        "paused: lane headless:claude; go on: orchestrator --run r unpause --lane headless:claude"
    )


def test_a_lane_is_whose_hands_do_it() -> None:
    run = in_scope("T1")
    run.add(*pause(run.state, lanes=["interactive:claude"]))
    task = run.state.tasks[ONE]
    assert starting(run.state) == ["T1"]
    by_hand = Admission.of(run.state, NOW, mode=Mode.INTERACTIVE).admit(task)
    assert by_hand == Bar("lane:interactive:claude")
    run.add(*pause(run.state, "T1"))
    assert isinstance(Admission.of(run.state, NOW).admit(task), Bar)


# -- taking back ----------------------------------------------------------------------------------


def test_the_last_change_is_taken_back_then_the_one_before() -> None:
    state = set_(run_of(added("T1")), "max_concurrent", "5")
    set_(state, "models.scope", "opus", "max_concurrent", "6")
    set_task(state, "T1", "priority", "4")
    then(state, undo(state, 1, by="me", reason="no"))
    assert state.tasks[ONE].priority == 0
    then(state, undo(state, 1, by="me"))
    assert (state.settings.max_concurrent, state.settings.models) == (5, {})
    then(state, undo(state, 1, by="me"))
    assert state.settings == Settings()
    with pytest.raises(Refused, match="nothing that me changed is there to take back"):
        undo(state, 1, by="me")


def test_several_are_taken_back_by_one_event_for_each_that_they_changed() -> None:
    state = set_(run_of(added("T1"), added("T2")), "max_concurrent", "5")
    set_(state, "max_concurrent", "6", "models.scope", "opus")
    then(state, pause(state, "T1", "T2", lanes=["engine:none"]))
    events = undo(state, 3, by="me", reason="all of it")
    assert [type(event) for event in events] == [SettingsChanged, TaskChanged, TaskChanged]
    then(state, events)
    assert state.settings == Settings()
    assert [task.paused for task in state.tasks.values()] == [None, None]
    with pytest.raises(Refused, match="nothing"):
        undo(state, 1, by="me")


def test_what_one_command_has_changed_is_taken_back_together() -> None:
    state = set_(run_of(added("T1"), added("T2")), "max_concurrent", "5")
    then(state, pause(state, "T1", "T2", lanes=["engine:none"]))
    then(state, undo(state, 1, by="me"))
    assert (state.settings.paused_lanes, state.settings.max_concurrent) == ((), 5)
    assert not state.set_aside


def test_what_has_changed_again_is_not_taken_back_and_who_did_it_is_named() -> None:
    state = set_(run_of(added("T1")), "max_concurrent", "5", "budget_usd", "9")
    set_(state, "max_concurrent", "7", by="Ada")
    before = state.settings
    with pytest.raises(
        Refused, match=r"max_concurrent was changed again since, by Ada: it is 7, .* from 5 to 3"
    ):
        undo(state, 1, by="me")
    assert state.settings == before
    set_task(set_task(state, "T1", "priority", "2"), "T1", "priority", "3", by="Ada")
    with pytest.raises(Refused, match="priority of T1 was changed again since, by Ada"):
        undo(state, 1, by="me")
    # It is what it was made again: nobody's word is overwritten.
    then(state, undo(state, 1, by="Ada"))
    then(state, undo(state, 1, by="me"))
    assert state.tasks[ONE].priority == 0


def test_nobody_takes_back_what_others_changed() -> None:
    state = set_(run_of(), "max_concurrent", "5", by="Ada")
    with pytest.raises(Refused, match="--history` shows what others changed"):
        undo(state, 1, by="me")
    set_(state, "budget_usd", "5")
    with pytest.raises(Refused, match="only 1 change by me can be taken back, not 2"):
        undo(state, 2, by="me")


def test_a_stage_that_was_not_set_is_not_set_again() -> None:
    state = set_(run_of(settings=Settings(models={"review": "opus"})), "models.scope", "haiku")
    set_(state, "models.review", "none")
    then(state, undo(state, 2, by="me"))
    assert state.settings.models == {"review": "opus"}


def test_the_history_says_who_when_what_it_was_and_why() -> None:
    state = run_of(added("T1"))
    then(state, steer.change_settings(state, {"budget_usd": "5"}, by="Ada", reason="so late"))
    then(state, pause(state, "T1"))
    then(state, undo(state, 1, by="me"))
    rows = history(state)
    assert [(row.seq, row.by, row.task_id, row.key, row.was, row.now) for row in rows] == [
        (3, "Ada", None, "budget_usd", None, 5.0),
        (4, "me", "T1", "paused", None, "lunch"),
        (5, "me", "T1", "paused", "lunch", None),
    ]
    assert [(row.reason, row.undoes, row.undone_by) for row in rows] == [
        ("so late", (), None),
        ("lunch", (), 5),
        ("", (4,), None),
    ]
    first, second, third = changes_text(rows).splitlines()
    assert "Ada  budget_usd: none -> 5.0 (so late)" in first
    assert second.endswith("T1 paused: none -> lunch (lunch); taken back by 5")
    assert third.endswith("T1 paused: lunch -> none; takes back 4")
