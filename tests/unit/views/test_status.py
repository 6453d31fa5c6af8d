"""The status: what INTERFACE promises of it, and what its audits call clean."""

import json

import msgspec
import pytest

from orchestrator.core.events import (
    DispatchReclaimed,
    KnownEvent,
    LeaseSuperseded,
    RunFinalized,
    RunPaused,
    SettingsChanged,
    TaskAbandoned,
    TaskChanged,
    TaskHeld,
)
from orchestrator.core.fold import replay
from orchestrator.core.model import Outcome, RunStatus, Stage, TaskId, WorkItemId
from orchestrator.core.state import RunState
from orchestrator.journal.codec import encode_commit
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.status import EventsAudit, Status, events_audit, status_of
from orchestrator.views.text import status_text
from tests.unit.journal.events import NOW, added, created, dispatched, recorded

LIVE = DriverStatus(state="live", alive=True, pid=7, dispatch_limit=2, limited_by="five_hour")
DEAD = DriverStatus(state="dead", pid=7)


def run(*events: KnownEvent) -> RunState:
    return replay(encode_commit([created(), *events], after_seq=0, run_id="r1", now=NOW)[1])


def status(state: RunState, driver: DriverStatus = LIVE) -> Status:
    return status_of(state, driver, now=NOW + 60, lease_alive=lambda lease: False)


def audit(state: RunState, driver: DriverStatus = LIVE, *, shim_lives: bool = False) -> EventsAudit:
    return events_audit(state, driver, now=NOW + 60, lease_alive=lambda lease: shim_lives)


def whole_task(task: str) -> list[KnownEvent]:
    events: list[KnownEvent] = []
    for stage in Stage:
        last = Outcome.COMPLETED if stage is Stage.REVIEW else Outcome.ADVANCED
        events += [dispatched(task, stage), recorded(task, stage, outcome=last)]
    return events


def test_it_has_the_fields_that_are_promised() -> None:
    state = run(added("T1"), added("T2", depends_on=("T1", "X")), dispatched("T1", Stage.INTAKE))
    found = json.loads(msgspec.json.encode(status(state)))
    assert set(found) >= {
        "run_id", "run_state", "terminal", "tasks", "counts", "driver", "lane_audit",
        "events_audit", "cost", "windows", "scheduler",
    }  # fmt: skip
    assert set(found["tasks"][0]) >= {
        "task_id", "state", "stage", "attempt", "depends_on", "waiting_for", "branch", "worktree",
        "session_id", "cost_usd",
    }  # fmt: skip
    assert set(found["driver"]) >= {
        "state", "alive", "pid", "heartbeat_age_s", "last_state", "exit_reason",
    }  # fmt: skip
    assert set(found["lane_audit"]) == {"clean", "total_calls", "by_lane", "unattributed"}
    assert set(found["events_audit"]) >= {
        "clean", "dispatched", "recorded", "reclaimed", "superseded", "abandoned", "outstanding",
    }  # fmt: skip
    assert set(found["cost"]) >= {
        "total_usd", "reserved_usd", "budget_usd", "max_possible_usd", "by_stage", "by_task",
        "cache_hit_rate", "metered",
    }  # fmt: skip
    assert found["scheduler"] == {"exit_reason": None, "limit": 2, "limited_by": "five_hour"}
    assert found["run_state"] == "running"
    assert found["counts"] == {"running": 1, "waiting": 1}
    first, second = found["tasks"]
    assert (first["state"], first["stage"], first["running_s"]) == ("running", "intake", 60.0)
    assert second["waiting_for"] == ["T1", "X"]
    assert second["reason"] == "after T1, X (not added)"
    assert found["reason"] == "waiting for tasks that are not added: X"


def test_a_finished_healthy_run_has_clean_audits_and_its_bill() -> None:
    state = run(added("T1"), *whole_task("T1"), RunFinalized(state=RunStatus.COMPLETED))
    found = status(state, DriverStatus(state="exited", exit_reason="completed"))
    assert (found.run_state, found.terminal, found.reason) == ("completed", True, None)
    books = found.events_audit
    assert (books.dispatched, books.recorded, books.outstanding, books.clean) == (6, 6, 0, True)
    assert found.lane_audit.clean
    assert (found.lane_audit.total_calls, found.lane_audit.by_lane) == (3, {"headless:claude": 3})
    assert found.cost.total_usd == 0.75
    assert found.cost.by_stage == {"scope": 0.25, "implement": 0.25, "review": 0.25}
    assert found.cost.by_task == {"T1": 0.75}
    assert found.cost.cache_hit_rate == 0.8999
    assert found.scheduler.exit_reason == "completed"


def test_a_call_on_another_lane_than_its_work_items_is_not_clean() -> None:
    elsewhere = msgspec.structs.replace(recorded("T1", Stage.SCOPE), lane_used="interactive:claude")
    events = whole_task("T1")
    state = run(added("T1"), *events[:2], dispatched("T1", Stage.SCOPE), elsewhere)
    found = status(state).lane_audit
    assert (found.clean, found.unattributed, found.total_calls) == (False, 1, 1)


@pytest.mark.parametrize("how", ["adopted", "harvested", "resumed"])
def test_taking_a_dispatch_up_again_adds_none(how: str) -> None:
    item = WorkItemId("T1/intake/a1/d1")
    begun: list[KnownEvent] = [added("T1"), dispatched("T1", Stage.INTAKE)]
    taken = DispatchReclaimed(task_id=TaskId("T1"), work_item_id=item, how=how)
    books = audit(run(*begun, taken))
    assert (books.dispatched, books.recorded, books.outstanding) == (1, 0, 1)
    assert (books.reclaimed, books.reclaimed_by[how], books.clean) == (1, 1, True)
    books = audit(run(*begun, taken, recorded("T1", Stage.INTAKE)))
    assert (books.dispatched, books.recorded, books.outstanding, books.clean) == (1, 1, 0, True)


def test_dispatches_that_ended_otherwise_are_left_out() -> None:
    task, item = TaskId("T1"), WorkItemId("T1/intake/a1/d1")
    begun: list[KnownEvent] = [added("T1"), dispatched("T1", Stage.INTAKE)]
    never = DispatchReclaimed(task_id=task, work_item_id=item, how="redispatched")
    for ending in (
        never,
        LeaseSuperseded(task_id=task, work_item_id=item),
        TaskAbandoned(task_id=task, work_item_id=item),
    ):
        books = audit(run(*begun, ending), DEAD)
        assert (books.dispatched, books.recorded, books.outstanding) == (0, 0, 0)
        assert books.clean
    again = dispatched("T1", Stage.INTAKE, dispatch=2)
    books = audit(run(*begun, never, again, recorded("T1", Stage.INTAKE, dispatch=2)))
    assert (books.dispatched, books.recorded, books.clean) == (1, 1, True)


def test_a_dispatch_that_nobody_owns_is_not_clean() -> None:
    state = run(added("T1"), dispatched("T1", Stage.INTAKE))
    assert audit(state, LIVE).clean
    assert audit(state, DEAD, shim_lives=True).clean
    books = audit(state, DEAD)
    assert (books.clean, books.orphaned) == (False, ("T1/intake/a1/d1",))


def test_an_interactive_lease_is_its_sessions_until_its_time_is_over() -> None:
    lease = msgspec.structs.replace(dispatched("T1", Stage.INTAKE), lane="interactive:claude")
    assert audit(run(added("T1"), lease), DEAD).clean
    late = msgspec.structs.replace(lease, timeout_s=59.0)
    assert not audit(run(added("T1"), late), DEAD).clean


def test_it_says_why_a_run_and_a_task_do_not_go_on() -> None:
    held = TaskHeld(task_id=TaskId("T1"), reason="the plan is not feasible")
    found = status(run(added("T1"), held, RunPaused(reason="3 tasks failed in a row")))
    assert (found.run_state, found.reason) == ("paused", "paused: 3 tasks failed in a row")
    assert (found.tasks[0].state, found.tasks[0].reason) == ("held", "the plan is not feasible")


def test_it_shows_what_a_person_has_paused_and_put_first() -> None:
    first = TaskId("T1")
    state = run(
        added("T1"),
        added("T2", depends_on=("T1",)),
        TaskChanged(task_id=first, changes={"paused": "not yet", "priority": 7}),
        SettingsChanged(changes={"paused_lanes": ["engine:none"]}),
        added("T3"),
        TaskChanged(task_id=TaskId("T2"), changes={"paused": "nor this"}),
    )
    found = status(state)
    assert (found.paused_lanes, found.reason) == (("engine:none",), "paused: lane engine:none")
    assert [(row.priority, row.paused, row.reason) for row in found.tasks] == [
        (7, "not yet", "paused: not yet"),
        (0, "nor this", "paused: nor this; after T1"),
        (0, None, "lane engine:none is paused"),
    ]
    (line,) = [each for each in status_text(found).splitlines() if each.startswith("T1 ")]
    assert line.endswith("priority 7; paused: not yet")
