"""The end of the account's login, said while there is time."""

import pytest

from drivers.headless.login import ends_soon
from orchestrator.core.model import Ending, ResultStatus
from tests.simulation.driving import task
from tests.unit.test_decide import Run

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("ends_at", "said"),
    [
        ("2027-01-16T08:00:00Z", "ends in 24 hours"),
        ("2027-01-15T07:00:00Z", "has ended"),
        ("2027-03-01T00:00:00Z", ""),
        ("", ""),
        ("soon", ""),
        (None, ""),
    ],
)
def test_it_is_said_when_it_is_near(ends_at: object, said: str) -> None:
    told = ends_soon(ends_at, NOW)
    assert said in told
    assert bool(told) == bool(said)


def test_the_run_remembers_what_the_client_told_last() -> None:
    run = Run(task("a"))
    until = {"login_ends_at": "2027-01-16T08:00:00Z"}
    run.end(Ending(status=ResultStatus.SUCCESS, evidence=until))
    run.end(Ending(status=ResultStatus.SUCCESS))
    assert run.state.login_ends_at == "2027-01-16T08:00:00Z"
