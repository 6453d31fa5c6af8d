"""Schemas are promises: what is in tests/data/schemas/ changes only by a decision.

After one: UPDATE_SCHEMAS=1 pytest tests/unit/views/test_schema.py
"""

import json
import os
from pathlib import Path

import pytest

from drivers.headless.heartbeat import DriverRecord
from drivers.wiring_cli import project_file_schema
from orchestrator.journal.projections import CostRow, StageRecord
from orchestrator.views.schema import schemas

KEPT = Path(__file__).parents[2] / "data" / "schemas"
MORE = {
    "driver_record": DriverRecord,
    "cost_row": CostRow,
    "stage_record": StageRecord,
    "project_file": project_file_schema(),
}
SCHEMAS = schemas(MORE)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_what_was_promised(name: str) -> None:
    path = KEPT / f"{name}.json"
    present = json.dumps(SCHEMAS[name], indent=1, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_SCHEMAS"):
        path.write_text(present)
    assert path.read_text() == present


def test_nothing_is_promised_that_is_not_there() -> None:
    assert {path.stem for path in KEPT.glob("*.json")} == set(SCHEMAS)


def test_a_ready_schema_is_taken_as_it_is() -> None:
    assert schemas({"project": {"type": "object"}})["project"]["type"] == "object"
