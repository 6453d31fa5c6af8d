"""What an event means to a person who watches: one line, or nothing.  Pure."""

from datetime import datetime

from orchestrator.core.events import (
    CascadeBlocked,
    CooldownStarted,
    DispatchReclaimed,
    DriverClaimed,
    Entry,
    RetryScheduled,
    RunFinalized,
    RunPaused,
    RunUnpaused,
    SettingsChanged,
    StageDispatched,
    StageRecorded,
    StopRequested,
    TaskAbandoned,
    TaskAdded,
    TaskFailed,
    TaskHeld,
    TaskRequeued,
)


def happening(entry: Entry) -> str | None:
    what = _what(entry)
    at = datetime.fromtimestamp(entry.ts).astimezone().strftime("%H:%M:%S")
    return None if what is None else f"{at}  {what}"


def _what(entry: Entry) -> str | None:
    match entry.event:
        case StageDispatched() | StageRecorded() | RetryScheduled() | DispatchReclaimed() as event:
            return f"{event.task_id}  {_of_stage(event)}"
        case TaskAdded(task_id=task, title=title):
            return f"{task}  added: {title}"
        case TaskFailed(task_id=task, stage=stage):
            return f"{task}  failed at {stage}"
        case CascadeBlocked(task_id=task, because=because):
            return f"{task}  blocked: {because} did not complete"
        case TaskHeld(task_id=task, reason=reason):
            return f"{task}  held for a person: {reason}"
        case TaskAbandoned(task_id=task):
            return f"{task}  abandoned"
        case TaskRequeued(task_id=task, round=number):
            return f"{task}  again from the start, round {number}"
        case _:
            return _of_run(entry)


def _of_stage(
    event: StageDispatched | StageRecorded | RetryScheduled | DispatchReclaimed,
) -> str:
    match event:
        case StageDispatched(stage=stage, attempt=attempt, dispatch=dispatch):
            again = f", dispatch {dispatch}" if dispatch > 1 else ""
            return f"{stage} starts (attempt {attempt}{again})"
        case StageRecorded(stage=stage, outcome=outcome, cause=cause, cost=cost):
            why = f", {cause.replace('_', ' ')}" if cause else ""
            usd = f", {cost.cost_usd:.4f} USD" if cost else ""
            return f"{stage} {outcome.replace('_', ' ')}{why}{usd}"
        case RetryScheduled(stage=stage, attempt=attempt):
            return f"{stage} again (attempt {attempt})"
        case DispatchReclaimed(work_item_id=work_item, how=how):
            return f"{work_item} {how} after a restart"


def _of_run(entry: Entry) -> str | None:
    match entry.event:
        case SettingsChanged(changes=changes):
            return "set " + ", ".join(f"{key} = {value}" for key, value in changes.items())
        case CooldownStarted(until=until, reason=reason):
            return f"cooling down for {max(0.0, until - entry.ts):.0f} s: {reason}"
        case RunPaused(reason=reason):
            return f"paused: {reason}"
        case RunUnpaused():
            return "unpaused"
        case StopRequested(how=how):
            return f"stop --{how} was asked for"
        case DriverClaimed(process=process):
            return f"driver {process.pid} begins"
        case RunFinalized(state=state):
            return f"the run is {state}"
        case _:
            return None
