"""What happened in a run, event by event, as lines for a person: ``watch --activity``.

Invariant: every event has its line or a reason to have none; an agent's text in it is
cut to one short line.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from orchestrator.core.events import (
    AttemptRefunded,
    BudgetReserved,
    CascadeBlocked,
    ChildAdopted,
    ChildStarted,
    CooldownEnded,
    CooldownStarted,
    DispatchReclaimed,
    DriverClaimed,
    Entry,
    Event,
    ForecastMade,
    HistoryLoaded,
    LeaseSuperseded,
    MemoryRanOut,
    ResultRejected,
    RetryScheduled,
    RunCreated,
    RunFinalized,
    RunPaused,
    RunUnpaused,
    SettingsChanged,
    StageDispatched,
    StageRecorded,
    StopRequested,
    SupervisorParked,
    TaskAbandoned,
    TaskAdded,
    TaskChanged,
    TaskFailed,
    TaskHeld,
    TaskRequeued,
    TaskRevived,
    Unknown,
    WindowObserved,
)
from orchestrator.core.model import Outcome, TaskId
from orchestrator.core.options import flattened
from orchestrator.core.words import in_words, plain
from orchestrator.views.moments import clock, duration, told_at
from orchestrator.views.remarks import remarks
from orchestrator.views.text import cut

TEXT_WIDTH = 140


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    ts: float
    type: str
    task_id: TaskId | None
    text: str


def activity(entry: Entry) -> Activity | None:
    """None: nothing that a person would look for."""
    text = TEXTS[type(entry.event)](entry.event)
    if text is None:
        return None
    return Activity(
        seq=entry.seq,
        ts=entry.ts,
        type=_type(entry.event),
        task_id=getattr(entry.event, "task_id", None),
        text=cut(text, TEXT_WIDTH),
    )


def activity_line(row: Activity) -> str:
    return line(row.ts, row.task_id, row.text)


def line(at: float, task_id: str | None, text: str) -> str:
    return f"{told_at(at)}  {task_id or '-':<12}  {text}"


def _type(event: Event) -> str:
    return event.type if isinstance(event, Unknown) else str(event.__struct_config__.tag)


def _begins(event: StageDispatched) -> str:
    attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
    dispatch = f", dispatch {event.dispatch}" if event.dispatch > 1 else ""
    return f"{event.stage} begins{attempt}{dispatch}"


def _recorded(event: StageRecorded) -> str:
    took = f" in {duration(event.ended_at - event.started_at)}" if event.started_at else ""
    paid = f", {event.cost.cost_usd:.2f} USD" if event.cost is not None else ""
    if event.outcome is Outcome.COMPLETED:
        return f"{event.stage} done{took}{paid}; the task is COMPLETED"
    if event.outcome is Outcome.ADVANCED:
        noted = "".join(
            f"; {key.replace('_', ' ')}: {said}" for key, said in remarks(event.evidence).items()
        )
        return f"{event.stage} done{took}{paid}{noted}"
    why = event.cause or event.status
    return f"{event.stage} ended with {why}{took}{paid}{_because(event.error)}"


def _again(event: RetryScheduled) -> str:
    at = "" if event.not_before is None else f" at {clock(event.not_before)}"
    return f"again{at}: {event.stage}, attempt {event.attempt}{_because(event.reason)}"


def _set(event: SettingsChanged | TaskChanged) -> str:
    pairs = ", ".join(f"{key} = {plain(each)}" for key, each in flattened(event.changes).items())
    by = f" by {event.by}" if event.by else ""
    return f"{'taken back' if event.undoes else 'set'}{by}: {pairs}{_because(event.reason)}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _nothing(_: object) -> None:
    """What the lines around it say already, or what comes too often."""


TEXTS: Mapping[type, Callable[[Any], str | None]] = {
    RunCreated: lambda e: f"run created for {e.project.name}",
    SettingsChanged: _set,
    TaskChanged: _set,
    HistoryLoaded: _nothing,
    ForecastMade: lambda e: (
        f"expected to end by {clock(e.finish_at[1])} (p50), for {e.cost_usd[1]:.2f} USD"
    ),
    TaskAdded: lambda e: (
        f"added: {e.title}" + (f" (after {', '.join(e.depends_on)})" if e.depends_on else "")
    ),
    StageDispatched: _begins,
    ChildStarted: _nothing,
    ChildAdopted: _nothing,
    StageRecorded: _recorded,
    DispatchReclaimed: lambda e: f"{e.how} after a restart{_because(e.reason)}",
    LeaseSuperseded: lambda e: f"taken over from a session that is gone{_because(e.reason)}",
    ResultRejected: lambda e: f"a result was refused: {e.reason}",
    RetryScheduled: _again,
    AttemptRefunded: lambda e: f"given back: attempt {e.attempt} of {e.stage}",
    TaskFailed: lambda e: f"FAILED at {e.stage}: {e.reason}",
    TaskRevived: lambda e: "goes on: what ended it was a storm",
    CascadeBlocked: lambda e: f"blocked: {e.because} did not complete",
    TaskHeld: lambda e: f"held for a person: {e.reason}",
    TaskAbandoned: lambda e: f"abandoned{_because(e.reason)}",
    TaskRequeued: lambda e: f"to be done again, round {e.round}{_because(e.reason)}",
    CooldownStarted: lambda e: f"nothing starts before {clock(e.until)}: {e.reason}",
    CooldownEnded: lambda e: f"the limit is over{_because(e.reason)}",
    MemoryRanOut: lambda e: (
        f"no more than {e.limit} at once until {clock(e.until)}: memory ran out{_because(e.reason)}"
    ),
    WindowObserved: _nothing,
    BudgetReserved: _nothing,
    RunPaused: lambda e: f"PAUSED: {e.reason}",
    RunUnpaused: lambda e: "goes on after a pause",
    StopRequested: lambda e: f"asked to stop ({e.how})",
    SupervisorParked: lambda e: f"PARKED: {e.reason}",
    DriverClaimed: lambda e: f"driver {e.driver} begins" + (", taking over" if e.took_over else ""),
    RunFinalized: lambda e: f"the run has ended: {in_words(e.state)}",
    Unknown: lambda e: f"{e.type} (of a newer version)",
}
"""A row for each type of event there is."""
