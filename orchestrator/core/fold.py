"""Turn events into state, in place.

One row of FOLDS per event.  An event that does not fit the state is an
InvariantBroken: it stops the run, in production too.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator.core import (
    events as e,
    fold_account,
    fold_changes,
    fold_dispatches,
    fold_run,
    fold_storm,
    fold_tasks,
)
from orchestrator.core.errors import InvariantBroken
from orchestrator.core.events import Entry, RunCreated
from orchestrator.core.state import RunState

FOLDS: Mapping[type, Callable[[RunState, Any, Entry], None]] = {
    e.SettingsChanged: fold_changes.settings_changed,
    e.TaskAdded: fold_tasks.task_added,
    e.TaskChanged: fold_changes.task_changed,
    e.HistoryLoaded: fold_run.history_loaded,
    e.ForecastMade: fold_run.forecast_made,
    e.StageDispatched: fold_dispatches.stage_dispatched,
    e.ChildStarted: fold_dispatches.child_started,
    e.ChildAdopted: fold_run.nothing,
    e.StageRecorded: fold_dispatches.stage_recorded,
    e.DispatchReclaimed: fold_dispatches.dispatch_reclaimed,
    e.LeaseSuperseded: fold_dispatches.lease_superseded,
    e.ResultRejected: fold_run.result_rejected,
    e.RetryScheduled: fold_dispatches.retry_scheduled,
    e.AttemptRefunded: fold_storm.attempt_refunded,
    e.TaskFailed: fold_tasks.task_failed,
    e.CascadeBlocked: fold_tasks.cascade_blocked,
    e.TaskHeld: fold_tasks.task_held,
    e.TaskAbandoned: fold_tasks.task_abandoned,
    e.TaskRevived: fold_tasks.task_revived,
    e.TaskRequeued: fold_tasks.task_requeued,
    e.CooldownStarted: fold_account.cooldown_started,
    e.CooldownEnded: fold_account.cooldown_ended,
    e.MemoryRanOut: fold_run.memory_ran_out,
    e.WindowObserved: fold_account.window_observed,
    e.BudgetReserved: fold_run.nothing,
    e.RunPaused: fold_run.run_paused,
    e.RunUnpaused: fold_run.run_unpaused,
    e.StopRequested: fold_run.stop_requested,
    e.SupervisorParked: fold_run.supervisor_parked,
    e.DriverClaimed: fold_run.driver_claimed,
    e.RunFinalized: fold_run.run_finalized,
    e.Unknown: fold_run.nothing,
}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without the cycle collector, which a growing state makes walk all of it again and again.

    Nothing that is folded is ever in a cycle.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def replay(entries: Iterable[Entry]) -> RunState:
    """Rebuild a run from its whole journal."""
    state: RunState | None = None
    with undisturbed():
        for entry in entries:
            state = fold(state, entry)
    if state is None:
        raise InvariantBroken("the journal is empty")
    return state


def fold(state: RunState | None, entry: Entry) -> RunState:
    event = entry.event
    if state is None:
        if not isinstance(event, RunCreated):
            raise InvariantBroken(f"event {entry.seq} ({type(event).__name__}) before run_created")
        state = RunState(
            run_id=entry.run_id,
            settings=event.settings,
            project=event.project,
            mode=event.mode,
            created_at=entry.ts,
        )
    else:
        if entry.seq != state.seq + 1:
            raise InvariantBroken(f"event {entry.seq} follows event {state.seq}")
        handler = FOLDS.get(type(event))
        if handler is None:
            raise InvariantBroken(f"event {entry.seq} ({type(event).__name__}) in an open run")
        try:
            handler(state, event, entry)
        except InvariantBroken as broken:
            about = getattr(event, "work_item_id", None) or getattr(event, "task_id", "the run")
            raise InvariantBroken(f"event {entry.seq} ({about}): {broken}") from None
    state.seq = entry.seq
    state.last_ts = entry.ts
    return state
