"""Who hears of the run while it is driven: the heartbeat, the projections, a person.

The journal is the truth; nothing here may stop the run, so trouble is said and passed over.
"""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from drivers.headless.login import ends_soon
from orchestrator.core.events import (
    CascadeBlocked,
    CooldownEnded,
    CooldownStarted,
    DispatchReclaimed,
    Entry,
    MemoryRanOut,
    RetryScheduled,
    RunFinalized,
    RunPaused,
    StageDispatched,
    StageRecorded,
    TaskFailed,
    TaskHeld,
    TaskRevived,
)
from orchestrator.core.state import RunState
from orchestrator.views.moments import clock
from orchestrator.views.remarks import remarks

Project = Callable[[RunState, Entry], None]
"""Writes what an event adds to the files derived from the journal.  Raises OSError."""


class Listeners:
    """The Audience of a real run."""

    def __init__(
        self,
        narration: FilteringBoundLogger,
        project: Project,
        beat: Callable[[], None],
    ) -> None:
        self._narration = narration
        self._project = project
        self._beat = beat

    def changed(self) -> None:
        self._beat()

    def committed(self, state: RunState, entry: Entry) -> None:
        try:
            self._project(state, entry)
        except OSError as error:
            # Mended from the journal, at the driver's end or at the next start.
            self.say("a projection was not written", seq=entry.seq, error=error)
        self._tell(entry)

    def say(self, event: str, **values: object) -> None:
        self._narration.info(event, **values)

    def say_if(self, event: str) -> None:
        """Nothing where there is nothing to say."""
        if event:
            self.say(event)

    def _tell(self, entry: Entry) -> None:
        match entry.event:
            case StageDispatched(task_id=task, stage=stage, attempt=attempt, model=model):
                self.say("dispatched", task=task, stage=stage, attempt=attempt, model=model)
            case StageRecorded(task_id=task, stage=stage, outcome=outcome, cause=cause) as event:
                cost_usd = f"{event.cost.cost_usd:.4f}" if event.cost else None
                self.say(
                    "recorded",
                    task=task,
                    stage=stage,
                    outcome=outcome,
                    cause=cause,
                    why=event.error if stage.is_deterministic else None,  # no agent's words
                    usd=cost_usd,
                    another_model=event.evidence.get("another_model"),
                    on_paid_credits=event.evidence.get("using_overage"),
                    client_warns=event.evidence.get("client_warns"),
                    login=ends_soon(event.evidence.get("login_ends_at"), entry.ts),
                    **remarks(event.evidence),
                )
            case DispatchReclaimed(work_item_id=work_item, how=how):
                self.say("taken up again", dispatch=work_item, how=how)
            case RetryScheduled(task_id=task, stage=stage, attempt=attempt):
                self.say("again", task=task, stage=stage, attempt=attempt)
            case TaskFailed(task_id=task, stage=stage):
                self.say("task failed", task=task, stage=stage)
            case CascadeBlocked(task_id=task, because=because):
                self.say("blocked", task=task, because=because)
            case TaskHeld(task_id=task) | TaskRevived(task_id=task):
                self.say(_BECOMES[type(entry.event)], task=task)
            case _:
                self._tell_of_the_run(entry)

    def _tell_of_the_run(self, entry: Entry) -> None:
        match entry.event:
            case CooldownStarted(until=until, reason=reason, by=by):
                self.say(
                    "cooling down",
                    until=clock(until),
                    seconds=max(0, round(until - entry.ts)),
                    why=reason,
                    another_driver_of=by or None,
                )
            case CooldownEnded(reason=reason, by=by):
                self.say("the limit is over", why=reason, another_driver_of=by or None)
            case MemoryRanOut(task_id=task, limit=limit, until=until):
                self.say(
                    "out of memory: fewer at once",
                    task=task,
                    limit=limit,
                    seconds=max(0, round(until - entry.ts)),
                )
            case RunPaused(reason=reason):
                self.say("paused", reason=reason)
            case RunFinalized(state=status):
                self.say("run ended", state=status)
            case _:
                pass


_BECOMES = {
    TaskHeld: "held for a person",
    TaskRevived: "goes on: what ended it was a storm",
}
