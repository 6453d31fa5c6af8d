"""What the driver tells of the events that it commits."""

from pathlib import Path

import msgspec
import pytest

from drivers.headless.audience import Listeners
from drivers.headless.narration import open_narration
from orchestrator.core.events import ChildStarted, Entry, KnownEvent
from orchestrator.core.model import Cause, ProcessIdentity, Stage, TaskId, WorkItemId
from tests.unit.cli.runs import run_of
from tests.unit.journal.events import recorded


def told(tmp_path: Path, event: KnownEvent) -> str:
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


def test_a_start_is_told_when_it_is_seen_and_not_with_its_event(tmp_path: Path) -> None:
    process = ProcessIdentity(pid=5, start_time=1)
    item = WorkItemId("T1/implement/a1/d1")
    started = ChildStarted(task_id=TaskId("T1"), work_item_id=item, shim=process, child=process)
    assert told(tmp_path, started) == ""
