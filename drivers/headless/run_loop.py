"""Drive one run: plan, start, record, repeat.

This task alone commits and folds; dispatches report to it over a channel.  Invariants:
an intent is durable before its effect, and cancelling the loop detaches from every
child and ends none.
"""

import math
import signal
from collections.abc import Sequence

import trio

from drivers.headless.dispatches import Dispatches
from drivers.headless.heartbeat import DriverState, Pulse
from drivers.headless.messages import (
    Ended,
    Message,
    Observed,
    OthersAppended,
    Ready,
    Signalled,
    Unready,
)
from drivers.headless.outside import Audience, Invocation, Outside, RunEnd
from orchestrator.core.capacity import Capacity, capacity
from orchestrator.core.decide import decide, give_up
from orchestrator.core.errors import ExitStatus, StaleReport
from orchestrator.core.events import (
    ChildStarted,
    DriverClaimed,
    Entry,
    KnownEvent,
    ResultRejected,
    RunFinalized,
    WindowObserved,
)
from orchestrator.core.model import RunStatus, TaskId, TaskStatus
from orchestrator.core.plan import Plan, StartStage, plan
from orchestrator.core.recover import Seen, leases_to_look_at, recover
from orchestrator.core.state import RunState
from orchestrator.journal.live import Decide, LiveRun
from orchestrator.ports.execution import Started, WindowsSeen

LOOK_AGAIN_S = 30.0
"""Wall-clock moments are looked at again this often: a suspended machine must not oversleep."""

_EXIT_OF_RUN = {RunStatus.FAILED: ExitStatus.TASKS_FAILED}


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
        self._dispatches = Dispatches(run, outside, self._send)
        self._notes: list[ChildStarted | WindowObserved] = []
        self._due = Plan()
        self._capacity = Capacity(limit=0)
        self._closing: str = ""
        self._closing_ends_at = math.inf
        self._signal: int | None = None
        self._children_told_to_stop = False

    @property
    def state(self) -> RunState:
        return self._run.state

    async def drive(self, signals: trio.MemoryReceiveChannel[int] | None) -> RunEnd:
        async with trio.open_nursery() as tidying, trio.open_nursery() as nursery:
            self._dispatches.open(nursery, tidying)
            nursery.start_soon(self._listen_to_others)
            if signals is not None:
                nursery.start_soon(self._listen_to_signals, signals)
            await self._recover()
            end = await self._work()
            nursery.cancel_scope.cancel()
        return end

    # -- the loop ---------------------------------------------------------------------------

    async def _work(self) -> RunEnd:
        while True:
            self._replan()
            if self._due.finalize is not None:
                return await self._finalize(self._due.finalize)
            end = await self._ending()
            if end is not None:
                return end
            for start in self._due.starts:
                self._dispatches.prepare(start)
            self._audience.changed()
            await self._next_messages(self._due.wake_at)

    def _replan(self) -> None:
        now = self._outside.host.now()
        self._capacity = self._capacity_at(now)
        preparing = self._dispatches.preparing
        self._due = plan(self.state, now=now, capacity=self._capacity, preparing=preparing)
        if self._closing:
            self._due = Plan(limited_by="stopping")

    def _capacity_at(self, now: float) -> Capacity:
        most = self._invocation.max_concurrent or self.state.settings.max_concurrent
        share = self._invocation.utilization
        return capacity(self.state, now, max_concurrent=most, utilization=share)

    async def _next_messages(self, wake_at: float | None) -> None:
        """Wait for something to happen, then take in all that has."""
        wait_s = LOOK_AGAIN_S
        if wake_at is not None:
            wait_s = min(wait_s, max(0.0, wake_at - self._outside.host.now()))
        if self._closing:
            wait_s = min(wait_s, max(0.0, self._closing_ends_at - trio.current_time()))
        with trio.move_on_after(wait_s):
            messages = [await self._receive.receive()]
            while True:
                try:
                    messages.append(self._receive.receive_nowait())
                except trio.WouldBlock:
                    break
            await self._take_in(messages)
            return
        await self._write_notes()

    async def _take_in(self, messages: Sequence[Message]) -> None:
        ready: list[Ready] = []
        succeeded: list[Ended] = []
        with trio.CancelScope(shield=True):
            for message in messages:
                match message:
                    case Ready():
                        ready.append(message)
                    case Unready():
                        await self._give_up(message)
                    case Observed():
                        self._note(message)
                    case Ended(report=report) if report.ending.cause is None:
                        succeeded.append(message)
                    case Ended():
                        await self._record([message])
                    case OthersAppended():
                        await self._run.refresh()
                    case Signalled(number):
                        self._close(number)
            if succeeded:
                await self._record(succeeded)
            if ready:
                await self._dispatch(ready)

    # -- what is committed --------------------------------------------------------------------

    async def _dispatch(self, ready: Sequence[Ready]) -> None:
        """Make intents durable, all in one sync, then let their dispatches start."""

        def still_due(state: RunState) -> Sequence[KnownEvent]:
            if self._closing:
                return ()
            preparing = self._dispatches.preparing - {r.errand.start.task_id for r in ready}
            now = self._outside.host.now()
            due = plan(state, now=now, capacity=self._capacity_at(now), preparing=preparing)
            return [*self._live_notes(state), *_granted(ready, due.starts)]

        entries = await self._commit(still_due)
        granted = {getattr(entry.event, "work_item_id", None) for entry in entries}
        for each in ready:
            self._dispatches.prepared(
                each, granted=each.errand.work.id in granted, state=self.state
            )

    async def _record(self, ended: Sequence[Ended]) -> None:
        """Several only where each touches its own task alone, as a success does: one sync."""

        def judged(state: RunState) -> Sequence[KnownEvent]:
            events = self._live_notes(state)
            for each in ended:
                events += self._judged(state, each)
            return events

        for each in ended:
            self._dispatches.ended(each.out.task_id)
        await self._commit(judged)
        for each in ended:
            task = self.state.tasks[each.out.task_id]
            if task.status is TaskStatus.COMPLETED and not self.state.settings.keep_worktrees:
                self._dispatches.tidy(each.out.worktree, task.branch)

    def _judged(self, state: RunState, ended: Ended) -> Sequence[KnownEvent]:
        try:
            return decide(state, ended.report, self._outside.host.now())
        except StaleReport as stale:
            rejected = ResultRejected(
                task_id=ended.out.task_id,
                work_item_id=ended.out.work_item_id,
                reason=str(stale),
            )
            return (rejected,)

    async def _give_up(self, unready: Unready) -> None:
        self._dispatches.unprepared(unready.start.task_id)
        problem = f"{type(unready.problem).__name__}: {unready.problem}".splitlines()[0]
        reason = f"{unready.start.stage} cannot be prepared: {problem}"
        await self._commit(lambda state: give_up(state, unready.start.task_id, reason))

    async def _finalize(self, status: RunStatus) -> RunEnd:
        await self._commit(
            lambda state: (
                [*self._live_notes(state), RunFinalized(state=status)]
                if plan(state, now=self._outside.host.now(), capacity=self._capacity).finalize
                else ()
            )
        )
        if self.state.finalized is None:
            return await self._work()
        exit_status = _EXIT_OF_RUN.get(status, ExitStatus.DONE)
        return RunEnd(reason=status.value, exit_status=exit_status)

    async def _write_notes(self) -> None:
        if self._notes:
            with trio.CancelScope(shield=True):
                await self._commit(self._live_notes)

    async def _commit(self, decide_now: Decide) -> tuple[Entry, ...]:
        entries = await self._run.commit(decide_now, now=self._outside.host.now())
        if entries:
            self._notes.clear()
        for entry in entries:
            self._audience.committed(self.state, entry)
        return entries

    # -- what is only noted, and goes out with the next commit ----------------------------------

    def _note(self, message: Observed) -> None:
        out = message.out
        match message.observation:
            case Started(shim=shim, child=child):
                self._dispatches.started(out.task_id, (child or shim).pid)
                self._notes.append(
                    ChildStarted(
                        task_id=out.task_id, work_item_id=out.work_item_id, shim=shim, child=child
                    )
                )
            case WindowsSeen(windows=windows):
                if any(self.state.windows.get(w.name) != w for w in windows):
                    self._notes.append(WindowObserved(windows=windows))
            case _:
                self._audience.say("result seen", task=out.task_id, stage=out.stage)

    def _live_notes(self, state: RunState) -> list[KnownEvent]:
        """A note about a dispatch that is not out any more would break the fold: left out."""
        live = {lease.work_item_id for lease in state.in_flight.values()}
        return [
            note
            for note in self._notes
            if isinstance(note, WindowObserved) or note.work_item_id in live
        ]

    # -- the beginning and the end -----------------------------------------------------------------

    async def _recover(self) -> None:
        host = self._outside.host
        identity = host.identity()
        seen: dict[TaskId, Seen] = {}
        for lease in leases_to_look_at(self.state, identity):
            seen[lease.task_id] = await self._outside.executor.find(lease)
        claim = DriverClaimed(
            driver=f"{identity.hostname}:{host.this_process().pid}",
            process=host.this_process(),
            host=identity,
            argv=self._invocation.argv,
            took_over=self._invocation.take_over,
        )
        attach: list[TaskId] = []

        def taken_up(state: RunState) -> Sequence[KnownEvent]:
            recovery = recover(state, seen, identity, take_over=self._invocation.take_over)
            attach[:] = recovery.attach
            return (claim, *recovery.events)

        with trio.CancelScope(shield=True):
            await self._commit(taken_up)
        for task_id in attach:
            self._dispatches.attach(self.state, task_id)

    async def _ending(self) -> RunEnd | None:
        """The end, where nothing more is to be waited for."""
        is_busy = bool(self._dispatches.out or self._dispatches.preparing)
        if self._signal in {signal.SIGTERM, signal.SIGHUP}:
            return self._signal_end(self._signal)
        stop_now = self.state.stop_requested == "now" or self._closing == "now"
        if stop_now and not self._children_told_to_stop:
            self._children_told_to_stop = True
            self._dispatches.stop_all(self.state)
        if self._closing:
            timed_out = trio.current_time() >= self._closing_ends_at
            if not is_busy or timed_out:
                return self._signal_end(self._signal or signal.SIGINT)
            return None
        if self._due.starts or is_busy:
            return None
        if self._due.stalled:
            return RunEnd(reason=self._why_stalled(), exit_status=ExitStatus.STOPPED)
        if not self._invocation.wait and self._due.wake_at is not None:
            return RunEnd(
                reason=f"{self._due.limited_by}: come back later",
                exit_status=ExitStatus.STOPPED,
            )
        return None

    def _why_stalled(self) -> str:
        """For a person: what stopped it, and what to do."""
        match self._due.stalled:
            case "paused":
                return f"paused: {self.state.paused}"
            case "budget":
                budget, spent = self.state.settings.budget_usd, self.state.totals.cost_usd
                return (
                    f"budget: {spent:.2f} of {budget:.2f} USD are spent, too little is left for "
                    f"another stage; then: orchestrator set budget_usd USD"
                )
            case other:
                return other

    def _signal_end(self, number: int) -> RunEnd:
        return RunEnd(
            reason=f"signal {signal.Signals(number).name}", exit_status=128 + number, signal=number
        )

    def _close(self, number: int) -> None:
        """The first Ctrl-C waits a while for results; the second ends the children."""
        self._signal = number
        if number != signal.SIGINT:
            return
        if not self._closing:
            self._closing = "drain"
            self._closing_ends_at = trio.current_time() + self.state.settings.drain_s
            self._audience.say(
                "interrupted", waits_s=self.state.settings.drain_s, **self._dispatches.alive()
            )
        elif self._closing == "drain":
            self._closing = "now"
            settings = self.state.settings
            ladder_s = settings.interrupt_wait_s + settings.terminate_wait_s
            self._closing_ends_at = trio.current_time() + 2 * ladder_s + 5.0

    async def _listen_to_others(self) -> None:
        while True:
            await self._run.wait_for_others()
            await self._send.send(OthersAppended())

    async def _listen_to_signals(self, signals: trio.MemoryReceiveChannel[int]) -> None:
        async for number in signals:
            await self._send.send(Signalled(number))

    # -- what the heartbeat says -----------------------------------------------------------------

    def pulse(self) -> Pulse:
        counts = self.state.counts
        waits_for_capacity = self._capacity.limit == 0
        if self._dispatches.preparing:
            doing = DriverState.DISPATCHING
        elif self.state.in_flight:
            doing = DriverState.WAITING_ON_CHILDREN
        elif waits_for_capacity:
            doing = DriverState.WAITING_ON_CAPACITY
        elif self._due.wake_at is not None:
            doing = DriverState.WAITING_ON_COOLDOWN
        else:
            doing = DriverState.DISPATCHING
        return Pulse(
            state=doing,
            dispatch_limit=self._capacity.limit,
            limited_by=self._due.limited_by,
            dispatchable=counts.get(TaskStatus.READY, 0),
            in_flight=tuple(self.state.in_flight),
            util=self._capacity.utilization,
            reason=self.state.cooldown_reason if self._due.limited_by == "cooldown" else None,
            wait_until=self._due.wake_at if not self.state.in_flight else None,
        )


def _granted(ready: Sequence[Ready], due: Sequence[StartStage]) -> list[KnownEvent]:
    wanted = {start.task_id: start for start in due}
    return [
        each.errand.event
        for each in ready
        if wanted.get(each.errand.start.task_id) == each.errand.start
    ]
