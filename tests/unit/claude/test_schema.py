from typing import Any

import pytest

from adapters.execution.claude.schema import misfit
from orchestrator.core.model import Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS

REVIEW = OUTPUT_SCHEMAS[Stage.REVIEW]
ISSUE = {"severity": "major", "file": "a.py", "line": 3, "description": "wrong"}
VERDICT: dict[str, Any] = {"approved": False, "issues": [ISSUE], "non_blocking": ["x"]}


def test_verdict_that_fits() -> None:
    assert misfit(VERDICT, REVIEW) == ""
    assert misfit({**VERDICT, "issues": [{**ISSUE, "line": 3.0}]}, REVIEW) == ""


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "output must be object, not null"),
        ([VERDICT], "output must be object, not array"),
        ({"approved": True, "issues": []}, "output.non_blocking is missing"),
        ({**VERDICT, "approved": "no"}, "output.approved must be boolean, not string"),
        ({**VERDICT, "approved": 1}, "output.approved must be boolean, not integer"),
        ({**VERDICT, "more": 1}, "output.more is not asked for"),
        ({**VERDICT, "non_blocking": [1]}, "output.non_blocking[0] must be string, not integer"),
        (
            {**VERDICT, "issues": [{**ISSUE, "severity": "huge"}]},
            "output.issues[0].severity must be one of blocker, major, minor, not huge",
        ),
        (
            {**VERDICT, "issues": [ISSUE, {**ISSUE, "line": True}]},
            "output.issues[1].line must be integer, not boolean",
        ),
    ],
)
def test_first_misfit_is_named_with_its_place(value: Any, says: str) -> None:
    assert misfit(value, REVIEW) == says
