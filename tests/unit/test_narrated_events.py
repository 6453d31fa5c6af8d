"""What the driver tells of the events that it commits."""

from pathlib import Path

import msgspec
import pytest

from drivers.headless.audience import Listeners
from drivers.headless.narration import open_narration
from orchestrator.core.events import ChildStarted, Entry, KnownEvent
from orchestrator.core.model import Cause, ProcessIdentity, Stage, TaskId, WorkItemId
from orchestrator.views.timeline import activity
from tests.unit.cli.runs import run_of
from tests.unit.journal.events import recorded


def told(tmp_path: Path, event: KnownEvent) -> str:
    tmp_path.mkdir(exist_ok=True)
    log = tmp_path / "driver.log"
    narration = open_narration(log, secrets=(), stderr=None)
    listeners = Listeners(narration, lambda state, entry: None, lambda: None)
    listeners.committed(run_of(), Entry(seq=2, ts=2.0, run_id="r1", event=event))
    return log.read_text()


@pytest.mark.parametrize(("stage", "is_told"), [(Stage.TEST, True), (Stage.IMPLEMENT, False)])
def test_why_a_stage_failed_is_told_where_no_agent_worded_it(
    tmp_path: Path, stage: Stage, *, is_told: bool
) -> None:
    failed = msgspec.structs.replace(
        recorded("T1", stage),
        cause=Cause.TESTS_FAILED,
        error="1 check fails that the base passes: tests/test_a.py::test_b",
    )
    assert ("test_a.py::test_b" in told(tmp_path, failed)) is is_told


def test_what_a_success_does_not_show_is_remarked(tmp_path: Path) -> None:
    evidence = {
        "proves_nothing": "pytest fails on the base too (exit 1): no such module",
        "install_leaves": ["a", "b", "c", "d", "e"],
    }
    event = msgspec.structs.replace(recorded("T1", Stage.TEST), evidence=evidence)
    line = told(tmp_path, event)
    assert 'proves_nothing="pytest fails on the base too (exit 1): no such module"' in line
    left = "a, b, c and 2 more: these stay off the branch, but for what the work changes in them"
    assert f'install_leaves="{left}"' in line
    row = activity(Entry(seq=2, ts=2.0, run_id="r1", event=event))
    assert row is not None
    assert "; proves nothing: pytest fails" in row.text
    odd = msgspec.structs.replace(event, evidence={"install_leaves": 3, "proves_nothing": ""})
    assert "proves" not in told(tmp_path / "odd", odd)


def test_a_start_is_told_when_it_is_seen_and_not_with_its_event(tmp_path: Path) -> None:
    process = ProcessIdentity(pid=5, start_time=1)
    item = WorkItemId("T1/implement/a1/d1")
    started = ChildStarted(task_id=TaskId("T1"), work_item_id=item, shim=process, child=process)
    assert told(tmp_path, started) == ""
