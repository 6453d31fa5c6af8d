"""Live a run through under a virtual clock: the real plan, decide and fold, and a Nature
that says how each dispatch ends.

Invariant: only the state that is handed in changes, and it changes by events alone, so a
future is one that the driver itself could have come to.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from orchestrator.core.capacity import capacity
from orchestrator.core.choice import model_of
from orchestrator.core.decide import decide
from orchestrator.core.events import (
    BudgetReserved,
    DriverClaimed,
    Entry,
    KnownEvent,
    RunFinalized,
    RunUnpaused,
    SettingsChanged,
    StageDispatched,
    TaskChanged,
)
from orchestrator.core.fold import fold
from orchestrator.core.history import History
from orchestrator.core.model import Ending, HostIdentity, ProcessIdentity, Report, lane_of
from orchestrator.core.plan import Plan, StartStage, plan
from orchestrator.core.settings import TIMEOUT_S_DEFAULT
from orchestrator.core.state import Lease, RunState
from orchestrator.core.work import work_item_id

EVENTS_PER_STAGE_MAX = 60
"""A future that needs more than this on average goes round in circles: it is cut off."""
PAUSES_MAX = 100

_NOWHERE = HostIdentity(hostname="", machine_id="", boot_id="")
_CLAIM = DriverClaimed(
    driver="forecast", process=ProcessIdentity(pid=0, start_time=0), host=_NOWHERE
)


class Nature(Protocol):
    """What is not ours to decide."""

    def ending(self, state: RunState, lease: Lease, now: float) -> Ending:
        """How the dispatch ends, and when (``ended_at``), as seen from ``now``."""
        ...


Heard = Callable[[RunState, Entry], None]


def unheard(state: RunState, entry: Entry) -> None:
    del state, entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """How the driver was told to drive."""

    max_concurrent: int
    utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """How a run went."""

    ended_at: float
    """Epoch seconds: when nothing more could happen without a person."""
    stalled: str = ""
    """Why not every task had ended by then."""
    pauses: int = 0
    """How often it paused itself.  A person is taken to let it go on at once."""


def live_through(
    state: RunState, nature: Nature, *, now: float, drive: Drive, heard: Heard = unheard
) -> Life:
    """Drive ``state``, which is changed, to where it ends or stalls."""
    return _Future(state, nature, now, drive, heard).live()


@dataclass(slots=True)
class _Future:
    state: RunState
    nature: Nature
    now: float
    drive: Drive
    heard: Heard
    endings: list[tuple[float, int, Lease, Ending]] = field(default_factory=list)
    awaited: int = 0
    pauses: int = 0

    def live(self) -> Life:
        state = self.state
        last_at = self.now
        if state.finalized is not None:
            return Life(ended_at=last_at)
        self._commit([_CLAIM, *_all_let_go(state)])
        for lease in state.in_flight.values():
            self._await(lease)
        stages = sum(len(task.pipeline.stages) for task in state.tasks.values())
        events_max = state.seq + EVENTS_PER_STAGE_MAX * (stages + 10)
        while state.seq < events_max:
            due = self._plan()
            if due.finalize is not None:
                self._commit([RunFinalized(state=due.finalize)])
                return Life(ended_at=last_at, pauses=self.pauses)
            if due.starts:
                self._start(due.starts)
            elif state.paused is not None and not self.endings:
                if self.pauses >= PAUSES_MAX:
                    return Life(ended_at=last_at, stalled="paused", pauses=self.pauses)
                self.pauses += 1
                self._commit([RunUnpaused()])
                continue
            moment = self._next_moment(due)
            if moment is None:
                stalled = due.stalled or due.limited_by
                return Life(ended_at=last_at, stalled=stalled, pauses=self.pauses)
            self.now = max(self.now, moment)
            if self._take_in():
                last_at = self.now
        return Life(ended_at=last_at, stalled="it goes round in circles", pauses=self.pauses)

    def _plan(self) -> Plan:
        room = capacity(
            self.state,
            self.now,
            max_concurrent=self.drive.max_concurrent,
            utilization=self.drive.utilization,
        )
        return plan(self.state, now=self.now, capacity=room)

    def _start(self, starts: Sequence[StartStage]) -> None:
        for start in starts:
            self._commit(_intent(self.state, start))
            self._await(self.state.in_flight[start.task_id])

    def _await(self, lease: Lease) -> None:
        ending = self.nature.ending(self.state, lease, self.now)
        self.awaited += 1
        heapq.heappush(self.endings, (ending.ended_at, self.awaited, lease, ending))

    def _next_moment(self, due: Plan) -> float | None:
        ends_at = self.endings[0][0] if self.endings else None
        if due.wake_at is None or due.wake_at <= self.now:
            return ends_at
        return due.wake_at if ends_at is None else min(ends_at, due.wake_at)

    def _take_in(self) -> bool:
        """Record all that has ended by now."""
        has_ended = False
        while self.endings and self.endings[0][0] <= self.now:
            _, _, lease, ending = heapq.heappop(self.endings)
            report = Report(
                work_item_id=lease.work_item_id, content_hash=lease.content_hash, ending=ending
            )
            self._commit(decide(self.state, report, self.now))
            has_ended = True
        return has_ended

    def _commit(self, events: Sequence[KnownEvent]) -> None:
        state, now = self.state, self.now
        for event in events:
            entry = Entry(seq=state.seq + 1, ts=now, run_id=state.run_id, event=event)
            fold(state, entry)
            self.heard(state, entry)


def _all_let_go(state: RunState) -> list[KnownEvent]:
    """What is paused goes on now: when a person will say so, nobody knows."""
    events: list[KnownEvent] = [RunUnpaused()] if state.paused is not None else []
    if state.settings.paused_lanes:
        events.append(SettingsChanged(changes={"paused_lanes": []}))
    for task in state.tasks.values():
        if task.paused is not None:
            events.append(TaskChanged(task_id=task.id, changes={"paused": None}))
    return events


def _intent(state: RunState, start: StartStage) -> list[KnownEvent]:
    """What the driver commits before a start, without what only a child needs."""
    task = state.tasks[start.task_id]
    item_id = work_item_id(task, start)
    stage_settings = state.project.stage(start.stage)
    usd = start.max_budget_usd
    dispatched = StageDispatched(
        task_id=task.id,
        stage=start.stage,
        attempt=start.attempt,
        dispatch=start.dispatch,
        work_item_id=item_id,
        content_hash="",
        lane=lane_of(start.stage, state.mode),
        host=_NOWHERE,
        timeout_s=stage_settings.timeout_s or TIMEOUT_S_DEFAULT[start.stage],
        branch="",
        worktree="",
        model=model_of(state, task, start.stage),
        max_budget_usd=usd,
    )
    if usd is None:
        return [dispatched]
    return [dispatched, BudgetReserved(task_id=task.id, work_item_id=item_id, usd=usd)]


class Copies:
    """Copies of a run's state, without the texts that no decision looks at.

    By way of the snapshot's codec: what a copy does never touches the original.
    """

    def __init__(self, state: RunState) -> None:
        self._history = state.history
        # What it counts of words and of surprises, no experience can foretell.
        settings = msgspec.structs.replace(state.settings, spend_ratio_max=0.0, zero_work_max=0)
        bare = replace(state, history=History(), changes=[], settings=settings)
        slim = _decode(msgspec.msgpack.encode(bare))
        for task in slim.tasks.values():
            task.body = task.title = task.learnings = task.last_words = ""
            task.outputs.clear()
            task.checkpoint = None
            task.work_session = task.review_session = None
        self._encoded = msgspec.msgpack.encode(slim)

    def one(self) -> RunState:
        copy = _decode(self._encoded)
        history = self._history
        copy.history = History(
            samples={kind: list(kept) for kind, kept in history.samples.items()},
            own=dict(history.own),
        )
        return copy


def _decode(data: bytes) -> RunState:
    return msgspec.msgpack.decode(data, type=RunState)
