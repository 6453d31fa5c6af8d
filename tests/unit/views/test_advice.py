"""What status advises: every command is accepted in the state that it is advised for."""

import argparse
import shlex

import msgspec
import pytest

from drivers.cli import arguments, parser
from drivers.stepping import _free_lease, _next_start
from orchestrator.core import pausing, steer
from orchestrator.core.capacity import Capacity
from orchestrator.core.events import (
    KnownEvent,
    RunCreated,
    RunFinalized,
    RunPaused,
    SettingsChanged,
    StageDispatched,
    StageRecorded,
    TaskChanged,
    TaskFailed,
    TaskHeld,
    TaskRequeued,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import Mode, RunStatus, Stage, TaskId
from orchestrator.core.plan import plan
from orchestrator.core.settings import GitSettings, Project
from orchestrator.core.state import RunState
from orchestrator.journal.codec import encode_commit
from orchestrator.views.advice import Step, next_steps, to_go_on
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.status import status_of
from orchestrator.views.text import status_text
from tests.unit.journal.events import NOW, added, created, dispatched, recorded
from tests.unit.views.test_status import DEAD, LIVE, whole_task

NONE = DriverStatus()
EXITED = DriverStatus(state="exited", pid=7, exit_reason="budget", limited_by="budget")
TIMEOUT_S = 3600.0
LOOKING_BACK = ("retrospective",)


def run(
    *events: KnownEvent, mode: Mode = Mode.HEADLESS, project: Project | None = None
) -> RunState:
    first: RunCreated = msgspec.structs.replace(created(), mode=mode)
    if project is not None:
        first = msgspec.structs.replace(first, project=project)
    return replay(encode_commit([first, *events], after_seq=0, run_id="r1", now=NOW)[1])


def steps_of(state: RunState, driver: DriverStatus = NONE, *, after_s: float = 60.0) -> list[Step]:
    now = NOW + after_s
    return list(next_steps(status_of(state, driver, now=now, lease_alive=lambda lease: False)))


def commands(state: RunState, driver: DriverStatus = NONE, *, after_s: float = 60.0) -> list[str]:
    prefix = "orchestrator --run r1 "
    return [s.command.removeprefix(prefix) for s in steps_of(state, driver, after_s=after_s)]


def is_accepted(state: RunState, step: Step, *, now: float) -> bool:
    """Whether the command would be taken, and would change something.  Raises where refused."""
    words = shlex.split(step.command)
    if words[0] == "git":
        return words[-1].endswith(tuple(task.branch for task in state.tasks.values()))
    verb, rest = arguments.split(words[1:])
    assert verb is not None
    args = parser.parse(verb, verb.load(), rest)
    match verb.name:
        case "requeue":
            return bool(steer.requeue(state, args.tasks, reason=""))
        case "abandon":
            return bool(steer.abandon(state, args.tasks, reason="", live=()))
        case "set" if args.task:
            return bool(steer.change_task(state, args.task, pairs_of(args.pairs), by=""))
        case "set":
            return bool(steer.change_settings(state, pairs_of(args.pairs), by=""))
        case "unpause":
            return bool(unpausing(state, args))
        case "next":
            task = steer.find_task(state, args.task)
            _free_lease(task, resume=args.resume, is_driven=False)
            return _next_start(state, task, now, resume=args.resume) is not None
        case "record":
            return any(lease.is_interactive for lease in state.in_flight.values())
        case "add-task":
            return not state.tasks or set(args.task) == set(state.missing)
        case "run-headless":
            due = plan(state, now=now, capacity=Capacity(limit=3))
            is_whole = state.mode is Mode.HEADLESS and state.tasks and not state.missing
            is_useful = due.starts or due.finalize or due.wake_at or state.in_flight
            is_to_be_mended = due.stalled.partition(":")[0] in {
                *("paused", "budget", "task_budget", "stage_budget", "paused_tasks", "lane"),
            }
            return bool(is_whole and (is_useful or is_to_be_mended))
        case "tail":
            return bool(steer.find_task(state, args.task).records)
        case other:
            return other in {"watch", "cost-report", "retrospective"}


def unpausing(state: RunState, args: argparse.Namespace) -> list[KnownEvent]:
    if args.raise_budget:
        return steer.raise_budget(state, args.raise_budget, by="")
    if args.task or args.lane:
        return pausing.unpause_parts(state, args.task, args.lane, reason="", by="")
    return steer.unpause(state, by="")


def pairs_of(words: list[str]) -> dict[str, str]:
    return dict(zip(words[::2], words[1::2], strict=True))


def by_hand(task: str, stage: Stage = Stage.SCOPE) -> StageDispatched:
    return msgspec.structs.replace(dispatched(task, stage), lane="interactive:claude")


def in_scope(task: str) -> list[KnownEvent]:
    return [added(task), dispatched(task, Stage.INTAKE), recorded(task, Stage.INTAKE)]


def completed(task: str, *depends_on: str) -> list[KnownEvent]:
    return [added(task, depends_on=depends_on), *whole_task(task)]


BUDGET = SettingsChanged(changes={"budget_usd": 0.75})
TASK_BUDGET = TaskChanged(task_id=TaskId("T1"), changes={"budget_usd": 0.0})
PAUSED = TaskChanged(task_id=TaskId("T1"), changes={"paused": "not yet"})
PAUSED_LANE = SettingsChanged(changes={"paused_lanes": ["headless:claude"]})
STAGE_BUDGET = SettingsChanged(changes={"scope_budget_usd": 0.0})
STALE = [
    *completed("T1"), *completed("T2", "T1"), *completed("T3", "T2"),
    TaskRequeued(task_id=TaskId("T1"), round=2),
]  # fmt: skip
FAILED = TaskFailed(task_id=TaskId("T1"), stage=Stage.SCOPE, reason="the reason")
FAILED_TOO = msgspec.structs.replace(FAILED, task_id=TaskId("T2"))
HELD = TaskHeld(task_id=TaskId("T1"), reason="not feasible")


def again(task: str) -> list[KnownEvent]:
    """The second round of a whole task."""
    return [
        msgspec.structs.replace(event, dispatch=2)
        for event in whole_task(task)
        if hasattr(event, "dispatch")
    ]


STATES: dict[str, tuple[RunState, DriverStatus, float]] = {
    "no tasks": (run(), NONE, 60),
    "ready": (run(added("T1")), NONE, 60),
    "missing": (run(added("T1", depends_on=("X", "Y"))), NONE, 60),
    "dead": (run(added("T1"), dispatched("T1", Stage.INTAKE)), DEAD, 60),
    "live": (run(added("T1")), LIVE, 60),
    "interactive": (run(added("T1"), mode=Mode.INTERACTIVE), NONE, 60),
    "interactive, empty": (run(mode=Mode.INTERACTIVE), NONE, 60),
    "interactive, out": (run(*in_scope("T1"), by_hand("T1"), mode=Mode.INTERACTIVE), NONE, 60),
    "out": (run(*in_scope("T1"), by_hand("T1")), EXITED, 60),
    "out, driven": (run(*in_scope("T1"), by_hand("T1")), LIVE, 60),
    "overdue": (run(*in_scope("T1"), by_hand("T1")), NONE, TIMEOUT_S + 1),
    "overdue beside work": (run(*in_scope("T1"), by_hand("T1"), added("T2")), NONE, TIMEOUT_S + 1),
    "paused": (run(added("T1"), RunPaused(reason="lunch")), NONE, 60),
    "budget": (run(*completed("T1"), *in_scope("T2"), BUDGET), EXITED, 60),
    "budget raised": (run(*completed("T1"), *in_scope("T2")), EXITED, 60),
    "paused at the budget": (
        run(*completed("T1"), *in_scope("T2"), BUDGET, RunPaused(reason="budget: spent")),
        EXITED,
        60,
    ),
    "budget, by hand": (
        run(*completed("T1"), *in_scope("T2"), BUDGET, mode=Mode.INTERACTIVE),
        NONE,
        60,
    ),
    "a task's budget": (run(*in_scope("T1"), *in_scope("T2"), TASK_BUDGET), EXITED, 60),
    "a stage's budget": (run(*in_scope("T1"), STAGE_BUDGET), EXITED, 60),
    "a paused task": (run(added("T1"), added("T2"), PAUSED), LIVE, 60),
    "paused tasks only": (run(added("T1"), PAUSED), EXITED, 60),
    "a paused lane": (run(*in_scope("T1"), PAUSED_LANE), EXITED, 60),
    "held": (run(added("T1"), HELD), NONE, 60),
    "stale": (run(*STALE, *again("T1"), RunFinalized(state=RunStatus.COMPLETED)), EXITED, 60),
    "failed": (run(*in_scope("T1"), FAILED, RunFinalized(state=RunStatus.FAILED)), EXITED, 60),
    "failed behind a failed one": (
        run(
            *completed("T1"),
            added("T2", depends_on=("T1",)),
            *in_scope("T2")[1:],
            FAILED_TOO,
            TaskRequeued(task_id=TaskId("T1"), round=2),
            msgspec.structs.replace(FAILED, stage=Stage.INTAKE),
        ),
        EXITED,
        60,
    ),
    "completed": (run(*completed("T1"), RunFinalized(state=RunStatus.COMPLETED)), EXITED, 60),
    "not finalized": (run(*completed("T1")), DEAD, 60),
}


@pytest.mark.parametrize("name", STATES)
def test_what_is_advised_is_accepted(name: str) -> None:
    state, driver, after_s = STATES[name]
    for step in steps_of(state, driver, after_s=after_s):
        if "add-task --all" not in step.command or state.tasks:
            assert is_accepted(state, step, now=NOW + after_s), step


def test_a_run_for_hands_is_not_to_be_driven() -> None:
    assert commands(STATES["interactive"][0]) == ["next --task T1"]


def test_what_is_out_by_hand_is_to_be_handed_back() -> None:
    state = STATES["out"][0]
    assert commands(state, EXITED) == ["record --result FILE"]
    assert commands(state, after_s=TIMEOUT_S + 1) == [
        "record --result FILE",
        "next --task T1 --resume",
    ]


def test_what_is_overdue_by_hand_is_not_for_a_driver_to_take_up() -> None:
    state, driver, after_s = STATES["overdue beside work"]
    (why,) = [s.why for s in steps_of(state, driver, after_s=after_s) if "drive" in s.why]
    assert why == "no driver has been started; drive the run"


def test_stale_work_can_be_done_again_and_its_branch_is_shown() -> None:
    state, driver, _ = STATES["stale"]
    assert commands(state, driver)[0] == "requeue T2 T3"
    status = status_of(state, driver, now=NOW, lease_alive=lambda lease: False)
    (row,) = [line for line in status_text(status).splitlines() if line.startswith("T2 ")]
    assert row.endswith("orchestrator/r1/T2; stale: built on work that was requeued")


def test_what_no_test_has_checked_is_told_beside_its_branch() -> None:
    said = "pytest fails on the base too (exit 1): No module named pytest"
    events = [
        msgspec.structs.replace(event, evidence={"proves_nothing": said})
        if isinstance(event, StageRecorded) and event.stage is Stage.TEST
        else event
        for event in completed("T1")
    ]
    state = run(*events, *completed("T2"))
    status = status_of(state, EXITED, now=NOW, lease_alive=lambda lease: False)
    assert [task.unchecked for task in status.tasks] == [said, None]
    (row,) = [line for line in status_text(status, width=200).splitlines() if "T1 " in line[:4]]
    assert row.endswith(f"orchestrator/r1/T1; unchecked: {said}")


def test_stale_work_behind_a_failed_task_waits_for_that() -> None:
    failed = TaskFailed(task_id=TaskId("T1"), stage=Stage.INTAKE, reason="no")
    told = commands(run(*STALE, failed), EXITED)
    assert told == ["run-headless --wait", "tail T1", "requeue T1", "abandon T1"]


def test_a_failed_task_can_be_done_again_or_abandoned() -> None:
    state, driver, _ = STATES["failed"]
    assert commands(state, driver) == ["tail T1", "requeue T1", "abandon T1", *LOOKING_BACK]
    told = status_text(status_of(state, driver, now=NOW, lease_alive=lambda lease: False))
    assert told.count("the reason") == 1
    # T2 failed in a later round, when T1 was good: it cannot go on without T1.
    state, driver, _ = STATES["failed behind a failed one"]
    assert [told for told in commands(state, driver) if "T2" in told] == ["tail T2", "abandon T2"]


def test_a_run_that_has_ended_is_looked_back_on() -> None:
    project = Project(name="p", root="/a b/p", git=GitSettings(base_commit="0123456789abcdef"))
    ended = RunFinalized(state=RunStatus.COMPLETED)
    state = run(*completed("T1"), *completed("T2", "T1"), ended, project=project)
    first, *others = steps_of(state, EXITED)
    assert first == Step(
        "the work is on 2 branches; see that of T1",
        "git -C '/a b/p' log --patch 0123456789ab..orchestrator/r1/T1",
    )
    assert [step.command.split()[-1] for step in others] == ["cost-report", "retrospective"]
    assert not any("git" in step.command for step in steps_of(run(*completed("T1")), EXITED))


def test_who_looks_on_is_not_told_to_look_on() -> None:
    status = status_of(run(added("T1")), LIVE, now=NOW, lease_alive=lambda lease: False)
    assert [step.command for step in next_steps(status)] == ["orchestrator --run r1 watch"]
    assert next_steps(status, is_watched=True) == ()
    assert to_go_on(status) == ()


def test_what_makes_a_run_go_on() -> None:
    for name, wanted in {
        "paused": ["unpause", "run-headless --wait"],
        "interactive": ["next --task T1"],
        "failed": [],
        "ready": ["run-headless --wait"],
    }.items():
        state, driver, _ = STATES[name]
        found = to_go_on(status_of(state, driver, now=NOW, lease_alive=lambda lease: False))
        assert [s.command.removeprefix("orchestrator --run r1 ") for s in found] == wanted


def test_a_spent_budget_is_raised_to_a_number() -> None:
    state, driver, _ = STATES["budget"]
    assert commands(state, driver)[0] == "unpause --raise-budget 1.50"
    # What its last driver said is past once the budget has been raised.
    assert "raise-budget" not in " ".join(commands(STATES["budget raised"][0], driver))


def test_a_run_that_paused_at_its_budget_goes_on_with_more() -> None:
    state, driver, _ = STATES["paused at the budget"]
    assert commands(state, driver) == ["unpause --raise-budget 1.50", "run-headless --wait"]
    state, driver, _ = STATES["budget, by hand"]
    assert commands(state, driver) == ["unpause --raise-budget 1.50"]


def test_a_budget_of_one_task_or_stage_is_raised_alone() -> None:
    assert commands(*STATES["a task's budget"][:2])[0] == "set --task T1 budget_usd 1"
    assert commands(*STATES["a stage's budget"][:2])[0] == "set scope_budget_usd 1"


def test_what_was_paused_of_a_run_can_be_let_go_on() -> None:
    assert commands(*STATES["a paused task"][:2]) == ["unpause --task T1", "watch"]
    assert commands(*STATES["paused tasks only"][:2]) == [
        "unpause --task T1",
        "run-headless --wait",
    ]
    assert commands(*STATES["a paused lane"][:2])[0] == "unpause --lane headless:claude"


def test_missing_tasks_are_to_be_added() -> None:
    assert commands(STATES["missing"][0]) == ["add-task --task X --task Y"]


def test_what_a_person_holds_is_not_to_be_driven() -> None:
    assert commands(STATES["held"][0]) == ["requeue T1", "abandon T1"]
