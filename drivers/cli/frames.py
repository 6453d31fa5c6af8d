"""A run and its driver, looked at again and again until nothing more is to come.

Invariant: the driver is looked at before the journal, so that what a driver has written is seen
no later than its end.
"""

from collections.abc import Iterator
from typing import NamedTuple

from drivers.cli.onlooker import Onlooker, moments
from drivers.wiring_cli import driver_now
from orchestrator.core.errors import ExitStatus
from orchestrator.core.model import RunStatus
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import DriverStatus

DRIVER_LOOK_S = 1.0
DRIVER_END_WAIT_S = 5.0
"""How long a driver may take to leave once its run has ended."""


class Frame(NamedTuple):
    now: float
    state: RunState
    driver: DriverStatus
    is_last: bool


def frames(store: RunStore, looking: Onlooker, *, until_run_ends: bool) -> Iterator[Frame]:
    """Until the run has ended; where not ``until_run_ends``, until nobody drives it any more.

    A run that no driver was started for is waited for: somebody may be about to.
    """
    driver, looked_at, ended_at = DriverStatus(), 0.0, 0.0
    for now in moments():
        if ended_at or now - looked_at >= DRIVER_LOOK_S:
            driver, looked_at = driver_now(store, now), now
        state = looking.look()
        if state.status.is_terminal:
            ended_at = ended_at or now
            is_last = not driver.alive or now - ended_at >= DRIVER_END_WAIT_S
        else:
            ended_at = 0.0
            is_last = not (until_run_ends or driver.alive or driver.state == "none")
        yield Frame(now, state, driver, is_last)
        if is_last:
            return


def exit_status(state: RunState) -> ExitStatus:
    """As ``run-headless`` has it: of the run, if it has ended; otherwise it was stopped."""
    if not state.status.is_terminal:
        return ExitStatus.STOPPED
    return ExitStatus.TASKS_FAILED if state.status is RunStatus.FAILED else ExitStatus.DONE
