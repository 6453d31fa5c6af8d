"""A window's figures as a client may misspell them: understood where that is certain."""

import math
from typing import Any

import pytest

from adapters.execution.claude.usage_windows import windows_in
from orchestrator.core.model import Cause, ChildExit, Window
from tests.unit.claude.recorded import init, line, verdict

NOT_SAID: list[Any] = [None, "soon", "1796015482", True, -1, 0, math.nan, math.inf, 10**400, [], {}]


def window(**values: Any) -> Window:
    return windows_in({"unifiedWindows": {"five_hour": values}})["five_hour"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [(1796015482, 1796015482.0), (1796015482000, 1796015482.0), (1796015482123.0, 1796015482.123)]
    + [(said, None) for said in NOT_SAID],
)
def test_a_reset_is_seconds_or_milliseconds(said: Any, meant: float | None) -> None:
    assert window(resetsAt=said).resets_at == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [(0, 0.0), (0.87, 0.87), (1, 1.0), (1.02, 1.02), (87.0, 0.87), (2, 0.02), (100, 1.0)]
    + [(said, None) for said in (-0.1, 111, 1e300, math.nan, math.inf, True, "0.5", None)],
)
def test_how_full_is_a_share_or_a_percentage(said: Any, meant: float | None) -> None:
    assert window(utilization=said).utilization == meant


@pytest.mark.parametrize("said", [1e300, 253402300800, -7, "soon", 1796015482 * 10**6])
def test_a_rejection_until_a_moment_that_cannot_be_says_not_when(said: Any) -> None:
    info = {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": said}
    stdout = (
        init()
        + line(type="rate_limit_event", rate_limit_info=info)
        + line(type="result", subtype="success", is_error=True, api_error="usage_limit_reached")
    )
    found = verdict(stdout, ChildExit(code=1))
    assert (found.cause, found.resets_at) == (Cause.LIMIT, None)


def test_a_moment_that_cannot_be_does_not_hide_one_that_can() -> None:
    far = {"status": "rejected", "resetsAt": 1e300}
    near = {"status": "rejected", "resetsAt": 1796015482}
    info = {"status": "rejected", "unifiedWindows": {"five_hour": near, "seven_day": far}}
    stdout = (
        init()
        + line(type="rate_limit_event", rate_limit_info=info)
        + line(type="result", subtype="success", is_error=True, api_error="usage_limit_reached")
    )
    assert verdict(stdout, ChildExit(code=1)).resets_at == 1796015482
