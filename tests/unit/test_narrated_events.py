"""What the driver tells of the events that it commits."""

from pathlib import Path

import pytest

from drivers.headless.audience import Listeners
from drivers.headless.narration import open_narration
from orchestrator.core.events import ChildStarted, Entry
from orchestrator.core.model import ProcessIdentity, TaskId, WorkItemId
from tests.unit.cli.runs import run_of


@pytest.mark.parametrize("work_item", ["T1/implement/a1/d1", "T1/implement/a12/d3"])
def test_a_start_names_its_stage(tmp_path: Path, work_item: str) -> None:
    log = tmp_path / "driver.log"
    narration = open_narration(log, secrets=(), stderr=None)
    listeners = Listeners(narration, lambda state, entry: None, lambda: None)
    process = ProcessIdentity(pid=5, start_time=1)
    started = ChildStarted(
        task_id=TaskId("T1"), work_item_id=WorkItemId(work_item), shim=process, child=process
    )
    listeners.committed(run_of(), Entry(seq=2, ts=2.0, run_id="r1", event=started))
    assert log.read_text().endswith(" started task=T1 stage=implement pid=5\n")
