"""Drive one run: plan, start, record, repeat.

This task alone commits and folds; dispatches report to it over a channel.  Invariants:
an intent is durable before its effect, and cancelling the loop detaches from every
child and ends none.
"""

import math
from collections.abc import Collection, Sequence

import trio

from drivers.headless.closing import Closing, end_of_waiting
from drivers.headless.dispatches import Dispatches, granted, judged
from drivers.headless.heartbeat import Pulse
from drivers.headless.listening import pass_on, pass_on_signals
from drivers.headless.messages import (
    Ended,
    Message,
    NoRoom,
    Observed,
    OthersAppended,
    Ready,
    Signalled,
    Unready,
)
from drivers.headless.neighbours import Neighbours
from drivers.headless.notes import Notes
from drivers.headless.outside import Audience, Invocation, Outside, RunEnd, finished
from drivers.headless.pulse import pulse_of
from drivers.headless.room import Room
from drivers.headless.stalled import ends_stalled, pause_for_money, why_stalled
from drivers.headless.take_up import take_up
from drivers.headless.waiting import Waiting
from drivers.stages import cause_of, in_words
from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import give_up
from orchestrator.core.errors import ExitStatus
from orchestrator.core.events import (
    Entry,
    KnownEvent,
    RunFinalized,
)
from orchestrator.core.limits import answered
from orchestrator.core.model import RunStatus, TaskId, TaskStatus
from orchestrator.core.plan import Plan, plan
from orchestrator.core.state import RunState
from orchestrator.journal.live import Decide, LiveRun
from orchestrator.ports.execution import Answered, Started

LOOK_AGAIN_S = 30.0
"""Wall-clock moments are looked at again this often: a suspended machine must not oversleep."""
NOTES_WAIT_S = 2.0
"""How long a note may wait for a commit to go out with."""


async def drive_run(
    run: LiveRun,
    outside: Outside,
    invocation: Invocation,
    audience: Audience,
    signals: trio.MemoryReceiveChannel[int] | None = None,
) -> RunEnd:
    """Drive the run to its end, to a stall, or to a signal.  Cancel to detach at once."""
    return await RunLoop(run, outside, invocation, audience).drive(signals)


class RunLoop:
    def __init__(
        self, run: LiveRun, outside: Outside, invocation: Invocation, audience: Audience
    ) -> None:
        self._run = run
        self._outside = outside
        self._invocation = invocation
        self._audience = audience
        # Unbounded, because a dispatch sends a handful of messages and the limit bounds those.
        self._send, self._receive = trio.open_memory_channel[Message](math.inf)
        self._dispatches = Dispatches(run, outside, self._send, audience.say)
        self._neighbours = Neighbours(outside.account, audience.say)
        self._notes = Notes(outside.account.name)
        self._untold: list[Entry] = []
        self._room = Room(outside.host, invocation, audience.say)
        self._due = Plan()
        self._capacity = Capacity(limit=0)
        self._closing = Closing()
        self._children_told_to_stop = False
        self._waiting = Waiting(audience.say)
        self._due = self._plan_of(self.state)

    @property
    def state(self) -> RunState:
        return self._run.state

    async def drive(self, signals: trio.MemoryReceiveChannel[int] | None) -> RunEnd:
        async with trio.open_nursery() as tidying, trio.open_nursery() as nursery:
            self._dispatches.open(nursery, tidying)
            nursery.start_soon(pass_on, self._run.wait_for_others, OthersAppended(), self._send)
            nursery.start_soon(pass_on, self._neighbours.changed, OthersAppended(), self._send)
            if signals is not None:
                nursery.start_soon(pass_on_signals, signals, self._send)
            await self._recover()
            await self._hear_neighbours()
            end = await self._work()
            await self._tell()
            self._neighbours.close()
            nursery.cancel_scope.cancel()
        return end

    # -- the loop ---------------------------------------------------------------------------

    async def _work(self) -> RunEnd:
        while True:
            self._replan()
            if self._neighbours.have_news:
                await self._hear_neighbours()
                self._replan()
            if self._due.stalled == "budget":
                await self._commit(
                    lambda s: pause_for_money(s, self._plan_of(s), self._notes.live(s))
                )
                self._replan()
            if self._due.finalize is not None:
                return await self._finalize(self._due.finalize)
            if (end := await self._ending()) is not None:
                return end
            for start in self._due.starts:
                self._dispatches.prepare(start)
            await self._tell()
            await self._next_messages(self._due.wake_at)

    async def _tell(self) -> None:
        """Once what is due has been begun: nobody's start waits for a heartbeat or a file."""
        await trio.lowlevel.checkpoint()
        for entry in self._untold:
            self._audience.committed(self.state, entry)
        self._untold.clear()
        self._audience.changed()
        now = self._outside.host.now()
        await self._neighbours.tell(self.state, now)
        self._neighbours.let_go(self.state, self._due, self._dispatches.preparing, now)

    def _replan(self) -> None:
        preparing, now = self._dispatches.preparing, self._outside.host.now()
        if self._neighbours.is_race_on(self.state, now):
            room = self._room.capacity(self.state, now)
            wish = plan(self.state, now=now, capacity=room, preparing=preparing)
            self._neighbours.try_to_go_first(self.state, wish, now)
        self._due = self._plan_of(self.state, preparing)
        if self._closing.how:
            self._due = Plan(limited_by="stopping")

    def _plan_of(self, state: RunState, preparing: Collection[TaskId] = ()) -> Plan:
        now = self._outside.host.now()
        room = self._room.capacity(state, now)
        due = plan(state, now=now, capacity=room, preparing=preparing)
        self._capacity = self._neighbours.within(room, due, state, now)
        if self._capacity is room:
            return due
        return plan(state, now=now, capacity=self._capacity, preparing=preparing)

    async def _next_messages(self, wake_at: float | None) -> None:
        """Wait for something to happen, then take in all that has."""
        wait_s = LOOK_AGAIN_S
        if wake_at is not None:
            wait_s = min(wait_s, max(0.0, wake_at - self._outside.host.now()))
        if self._closing.how:
            wait_s = min(wait_s, max(0.0, self._closing.ends_at - trio.current_time()))
        if self._notes:
            wait_s = min(wait_s, NOTES_WAIT_S)
        if messages := await self._messages_within(wait_s):
            await self._take_in(messages)
            return
        self._neighbours.have_news = True
        await self._write_notes()

    async def _messages_within(self, wait_s: float) -> list[Message]:
        messages: list[Message] = []
        with trio.move_on_after(wait_s):
            messages.append(await self._receive.receive())
            while True:
                try:
                    messages.append(self._receive.receive_nowait())
                except trio.WouldBlock:
                    break
        return messages

    async def _take_in(self, messages: Sequence[Message]) -> None:
        """Not shielded: an append is whole by itself, and what follows from it is not awaited."""
        ready: list[Ready] = []
        succeeded: list[Ended] = []
        for message in messages:
            match message:
                case Ready():
                    ready.append(message)
                case Unready():
                    await self._give_up(message)
                case NoRoom(start):
                    self._dispatches.unprepared(start.task_id)
                    self._room.place_refused(self.state, self._dispatches.preparing)
                case Observed():
                    await self._observe(message)
                case Ended(report=report) if report.ending.cause is None:
                    succeeded.append(message)
                case Ended():
                    await self._record([message])
                case OthersAppended():
                    self._neighbours.have_news = True
                    await self._run.refresh()
                case Signalled(number):
                    self._signalled(number)
        if succeeded:
            await self._record(succeeded)
        if ready:
            await self._dispatch(ready)

    # -- what is committed --------------------------------------------------------------------

    async def _dispatch(self, ready: Sequence[Ready]) -> None:
        """Make intents durable, all in one sync, then let their dispatches start."""

        def still_due(state: RunState) -> Sequence[KnownEvent]:
            if self._closing.how:
                return ()
            preparing = self._dispatches.preparing - {r.errand.start.task_id for r in ready}
            due = self._plan_of(state, preparing)
            return [*self._notes.live(state), *granted(state, ready, due.starts)]

        entries = await self._commit(still_due)
        durable = {getattr(entry.event, "work_item_id", None) for entry in entries}
        for each in ready:
            self._dispatches.prepared(
                each, granted=each.errand.work.id in durable, state=self.state
            )

    async def _record(self, ended: Sequence[Ended]) -> None:
        """Several only where each touches its own task alone, as a success does: one sync."""

        def results(state: RunState) -> Sequence[KnownEvent]:
            events = self._notes.live(state)
            for each in ended:
                events += judged(state, each, self._outside.host.now())
            return events

        for each in ended:
            self._dispatches.ended(each.out.task_id)
            self._room.child_ended()
        await self._commit(results)
        for each in ended:
            task = self.state.tasks[each.out.task_id]
            if task.status is TaskStatus.COMPLETED and not self.state.settings.keep_worktrees:
                self._dispatches.tidy(each.out.worktree, task.branch, task.installed)

    async def _give_up(self, unready: Unready) -> None:
        self._dispatches.unprepared(unready.start.task_id)
        start = unready.start
        reason = f"{start.stage} cannot be prepared: {in_words(unready.problem)}"
        cause = cause_of(unready.problem)
        await self._commit(lambda state: give_up(state, start.task_id, reason, cause=cause))

    async def _finalize(self, status: RunStatus) -> RunEnd:
        await self._commit(
            lambda s: (
                [*self._notes.live(s), RunFinalized(state=status)]
                if self._plan_of(s).finalize
                else ()
            )
        )
        if self.state.finalized is None:
            return await self._work()
        return finished(status)

    async def _write_notes(self) -> None:
        if self._notes:
            await self._commit(self._notes.live)

    async def _commit(self, decide_now: Decide) -> tuple[Entry, ...]:
        entries = await self._run.commit(decide_now, now=self._outside.host.now())
        if entries:
            self._notes.clear()
        self._untold += entries
        return entries

    async def _observe(self, message: Observed) -> None:
        now, out = self._outside.host.now(), message.out
        self._notes.take(message, self.state, now)
        match message.observation:
            case Started(shim=shim, child=child):
                self._dispatches.started(out.task_id, (child or shim).pid)
            case Answered() if answered(self.state, out.work_item_id, now):
                await self._commit(
                    lambda s: [*self._notes.live(s), *answered(s, out.work_item_id, now)]
                )
            case _ if self._notes.are_urgent(self.state):
                await self._commit(self._notes.live)
            case _:
                pass

    async def _hear_neighbours(self) -> None:
        standing, now = self._neighbours.look(), self._outside.host.now()
        await self._commit(lambda state: self._neighbours.news(state, standing, now))

    # -- the beginning and the end -----------------------------------------------------------------

    async def _recover(self) -> None:
        for task_id in await take_up(self.state, self._outside, self._invocation, self._commit):
            self._dispatches.attach(self.state, task_id)

    async def _ending(self) -> RunEnd | None:
        """The end, where nothing more is to be waited for."""
        is_busy = bool(self._dispatches.out or self._dispatches.preparing)
        stop_now = self.state.stop_requested == "now" or self._closing.how == "now"
        if stop_now and not self._children_told_to_stop:
            self._children_told_to_stop = True
            self._dispatches.stop_all(self.state)
        end = self._closing.end(is_busy=is_busy)
        if end is not None or self._closing.how:
            return end
        if self._due.starts or is_busy:
            return None
        if self.state.finalized is not None:
            return finished(self.state.finalized)
        if ends_stalled(self._due, wait=self._invocation.wait):
            return RunEnd(
                reason=why_stalled(self.state, self._due.stalled), exit_status=ExitStatus.STOPPED
            )
        now = self._outside.host.now()
        wait = self._room.is_passing(self._due) or self._invocation.wait
        end = end_of_waiting(self.state, self._due, now, wait=wait)
        if end is None:
            self._waiting.tell(self.state, self._due, now)
        return end

    def _signalled(self, number: int) -> None:
        before = self._closing.how
        self._closing.signalled(number, self.state.settings)
        if self._closing.how == before:
            return
        self._audience.say(f"interrupted: {self._closing.in_words(self.state.settings)}")
        for each in self._dispatches.alive():
            self._audience.say("at work", **each)

    def pulse(self) -> Pulse:
        return pulse_of(
            self.state, self._due, self._capacity, is_preparing=bool(self._dispatches.preparing)
        )
