import pytest

from adapters.execution.rehearsal.schema import misfit, smallest
from orchestrator.core.model import Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ok"],
    "properties": {
        "ok": {"type": "boolean"},
        "n": {"type": ["integer", "null"]},
        "size": {"enum": ["small", "big"]},
        "all": {"type": "array", "items": {"type": "string"}},
    },
}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"ok": True, "n": None, "size": "big", "all": ["x"]}, None),
        ({}, "root: must have required property 'ok'"),
        ([], "root: must be object"),
        ({"ok": 1}, "root/ok: must be boolean"),
        ({"ok": True, "n": True}, "root/n: must be integer,null"),
        ({"ok": True, "size": "huge"}, "root/size: must be equal to one of the allowed values"),
        ({"ok": True, "all": ["x", 1]}, "root/all/1: must be string"),
        ({"ok": True, "more": 1}, "root: must NOT have additional properties"),
    ],
)
def test_says_why_a_value_does_not_fit(value: object, why: str | None) -> None:
    assert misfit(value, SCHEMA) == why


@pytest.mark.parametrize("stage", list(OUTPUT_SCHEMAS))
def test_the_smallest_value_fits(stage: Stage) -> None:
    assert misfit(smallest(OUTPUT_SCHEMAS[stage]), OUTPUT_SCHEMAS[stage]) is None
