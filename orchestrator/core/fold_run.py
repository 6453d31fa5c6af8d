"""Fold the events that change the run as a whole."""

from orchestrator.core.events import (
    BudgetReserved,
    ChildAdopted,
    DriverClaimed,
    Entry,
    ForecastMade,
    HistoryLoaded,
    MemoryRanOut,
    ResultRejected,
    RunFinalized,
    RunPaused,
    RunUnpaused,
    StopRequested,
    SupervisorParked,
    Unknown,
)
from orchestrator.core.fold_breakers import begin_anew, trip
from orchestrator.core.fold_storm import forgive
from orchestrator.core.graph import measure_heights
from orchestrator.core.pace import learn_paces
from orchestrator.core.state import RunState
from orchestrator.core.transitions import require


def run_paused(state: RunState, event: RunPaused, entry: Entry) -> None:
    state.paused = event.reason
    trip(state, event, entry)
    if event.systemic:
        state.canary = state.canary or "model"
        state.is_stormy = True
        forgive(state)


def run_unpaused(state: RunState, event: RunUnpaused, entry: Entry) -> None:
    state.paused = None
    begin_anew(state)
    state.troubles.clear()


def stop_requested(state: RunState, event: StopRequested, entry: Entry) -> None:
    state.stop_requested = event.how


def supervisor_parked(state: RunState, event: SupervisorParked, entry: Entry) -> None:
    state.parked = event.reason


def driver_claimed(state: RunState, event: DriverClaimed, entry: Entry) -> None:
    state.driver = event.driver
    state.stop_requested = None
    state.parked = None


def run_finalized(state: RunState, event: RunFinalized, entry: Entry) -> None:
    require(not state.in_flight, "the run ends while dispatches are out")
    state.finalized = event.state


def memory_ran_out(state: RunState, event: MemoryRanOut, entry: Entry) -> None:
    state.memory_limit = event.limit
    state.memory_limit_until = event.until


def history_loaded(state: RunState, event: HistoryLoaded, entry: Entry) -> None:
    """In place of what was loaded before; this run's own samples stay the newest."""
    state.history.load(event.samples)
    learn_paces(state)
    measure_heights(state)


def forecast_made(state: RunState, event: ForecastMade, entry: Entry) -> None:
    state.forecast = state.forecast or event
    state.outlook = event


def result_rejected(state: RunState, event: ResultRejected, entry: Entry) -> None:
    state.audit.results_rejected += 1


def nothing(state: RunState, event: Unknown | BudgetReserved | ChildAdopted, entry: Entry) -> None:
    pass
