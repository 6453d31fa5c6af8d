# mypy: disable-error-code="misc, attr-defined, no-any-return, list-item"
"""Honest mistakes, planted: what the simulator must catch to be believed.

Each puts a plausible wrong version in the place of a piece of the product.  test_mutants.py
asks of each that some seed of the first few hundred shows it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import trio

from adapters.execution import executor, places, stems, supervise
from adapters.execution.claude import cost
from adapters.host import processes
from drivers.headless import dispatches, heartbeat, room, run_loop, take_up
from orchestrator.core import (
    admission,
    allowance,
    breakers,
    budget,
    decide,
    fold,
    fold_changes,
    fold_dispatches as folds,
    graph,
    limits,
    plan,
    recover,
    steer,
    transitions,
    windows,
)
from orchestrator.core.events import CooldownEnded, DriverClaimed, Entry, KnownEvent
from orchestrator.core.model import Cause, Stage
from orchestrator.core.state import Breakers, RunState
from orchestrator.journal import codec, disk, file, scan
from orchestrator.ports.journal import Committed
from tests.simulation import driver

DecodeLines = Callable[[bytes], tuple[list[codec.Line], str]]
Patch = tuple[Any, str, Callable[[Any], Any]]
"""(owner, name, original -> replacement); an owner that is a dict has keys for names."""


@dataclass(frozen=True)
class Mutant:
    name: str
    mistake: str
    patches: Callable[[], Sequence[Patch]]


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    undo: list[Callable[[], None]] = []
    try:
        for owner, name, change in mutant.patches():
            if isinstance(owner, dict):
                original = owner[name]
                owner[name] = change(original)
                undo.append(lambda o=owner, n=name, v=original: o.__setitem__(n, v))
            else:
                original = owner.__dict__[name]
                setattr(owner, name, change(original))
                undo.append(lambda o=owner, n=name, v=original: setattr(o, n, v))
        yield
    finally:
        for step in reversed(undo):
            step()


# -- the journal ------------------------------------------------------------------------------


def _no_sync() -> Sequence[Patch]:
    return [(disk.FileDisk, "append", lambda _: _append_without_sync)]


async def _append_without_sync(self: disk.FileDisk, data: bytes) -> int:
    return await self._thread.run(lambda: disk.os.write(self._descriptor, data))


def _sync_error_ignored() -> Sequence[Patch]:
    async def append(self: disk.FileDisk, data: bytes) -> int:
        def write_and_sync() -> int:
            written = disk.os.write(self._descriptor, data)
            with suppress(OSError):
                self._datasync(self._descriptor)
            return written

        return await self._thread.run(write_and_sync)

    return [(disk.FileDisk, "append", lambda _: append)]


def _short_write_unseen() -> Sequence[Patch]:
    async def append(self: file.FileJournal, data: bytes) -> None:
        await self._disk.append(data)

    return [(file.FileJournal, "_append", lambda _: append)]


def _torn_tail_kept() -> Sequence[Patch]:
    async def cut(self: file.FileJournal) -> None:
        pass

    return [(file.FileJournal, "_cut_torn_tail", lambda _: cut)]


def _half_commits_read() -> Sequence[Patch]:
    def change(original: DecodeLines) -> DecodeLines:
        def decode_lines(data: bytes) -> tuple[list[codec.Line], str]:
            lines, error = original(data)
            return [(entry, True, 0) for entry, _, _ in lines], error

        return decode_lines

    return [(scan, "decode_lines", change)]


def _stale_decision() -> Sequence[Patch]:
    async def commit(
        self: file.FileJournal, expected_seq: int, events: Sequence[KnownEvent], *, now: float
    ) -> Committed:
        await self._lock(file.LOCK_WAIT_S)
        try:
            seen = await self._catch_up()
            after = self._follower.seq
            data, entries = codec.encode_commit(
                events, after_seq=after, run_id=self._run_id, now=now
            )
            await self._append(data)
            self._follower.advance(data, len(data), len(entries))
        finally:
            self._unlock()
        return Committed((*seen, *entries))

    return [(file.FileJournal, "commit", lambda _: commit)]


# -- before a start ----------------------------------------------------------------------------


def _spawned_before_durable() -> Sequence[Patch]:
    async def dispatch(self: dispatches.Dispatches, start: plan.StartStage) -> None:
        permission = dispatches.Permission()
        errand, has_room = await self._prepare(start)
        if not has_room:
            self._send.send_nowait(dispatches.NoRoom(start))
            return
        self._send.send_nowait(dispatches.Ready(errand, permission))
        ending = await self._outside.executor.run(errand.work, lambda observation: None)
        await permission.given.wait()
        if permission.granted:
            out = self.out[start.task_id]
            report = await dispatches.verify(out, ending, self._outside.workspace)
            self._send.send_nowait(dispatches.Ended(out, report))

    return [(dispatches.Dispatches, "_dispatch", lambda _: dispatch)]


def _permission_on_old_plan() -> Sequence[Patch]:
    async def grant(self: run_loop.RunLoop, ready: Sequence[Any]) -> None:
        entries = await self._commit(lambda state: [each.errand.event for each in ready])
        granted = {getattr(entry.event, "work_item_id", None) for entry in entries}
        for each in ready:
            self._dispatches.prepared(
                each, granted=each.errand.work.id in granted, state=self.state
            )

    return [(run_loop.RunLoop, "_dispatch", lambda _: grant)]


def _limit_without_the_adopted() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def plan_of(self: run_loop.RunLoop, state: RunState, preparing: Any = ()) -> Any:
            now = self._outside.host.now()
            mine = len(self._dispatches.out) - getattr(self, "adopted", 0)
            before = max(0, len(self.state.in_flight) - max(0, mine))
            found = self._room.capacity(state, now)
            self._capacity = _more(found, before)
            return plan.plan(state, now=now, capacity=self._capacity, preparing=preparing)

        return plan_of

    def attach_change(original: Any) -> Any:
        async def recover_and_count(self: run_loop.RunLoop) -> None:
            await original(self)
            self.adopted = len(self._dispatches.out)

        return recover_and_count

    return [
        (run_loop.RunLoop, "_plan_of", change),
        (run_loop.RunLoop, "_recover", attach_change),
    ]


def _adopted_after_starting() -> Sequence[Patch]:
    def plan_change(original: Any) -> Any:
        def plan_of(self: run_loop.RunLoop, state: RunState, preparing: Any = ()) -> Any:
            by = getattr(self, "not_adopted", 0)
            if not by:
                return original(self, state, preparing)
            now = self._outside.host.now()
            self._capacity = _more(self._room.capacity(state, now), by)
            return plan.plan(state, now=now, capacity=self._capacity, preparing=preparing)

        return plan_of

    def recover_change(original: Any) -> Any:
        async def start_and_recover(self: run_loop.RunLoop) -> None:
            left_open = set(self.state.in_flight)
            self.not_adopted = len(left_open)
            self._replan()
            for start in self._due.starts if left_open else ():
                self._dispatches.prepare(start)
            while self._dispatches.preparing:
                await self._take_in(await self._messages_within(1.0))
            self.not_adopted = 0
            for task_id in await run_loop.take_up(
                self.state, self._outside, self._invocation, self._commit
            ):
                if task_id in left_open:
                    self._dispatches.attach(self.state, task_id)

        return start_and_recover

    return [
        (run_loop.RunLoop, "_plan_of", plan_change),
        (run_loop.RunLoop, "_recover", recover_change),
    ]


def _more(found: Any, by: int) -> Any:
    import dataclasses

    return dataclasses.replace(found, limit=found.limit + by)


def _reservations_ignored() -> Sequence[Patch]:
    def of(cls: type[budget.Purse], state: RunState) -> budget.Purse:
        most = state.settings.budget_usd
        return cls(left_usd=None if most is None else most - state.totals.cost_usd)

    return [(budget.Purse, "of", lambda _: classmethod(of))]


def _reservation_kept() -> Sequence[Patch]:
    def sum_reserved(state: RunState) -> None:
        leases = {lease.work_item_id: lease for lease in state.in_flight.values()}
        state.totals.reserved_usd = max(
            state.totals.reserved_usd, sum(each.max_budget_usd or 0.0 for each in leases.values())
        )

    return [(module, "sum_reserved", lambda _: sum_reserved) for module in (transitions, folds)]


def _own_budgets_ignored() -> Sequence[Patch]:
    return [(budget, "own_limits", lambda _: lambda state, task: iter(()))]


def _spent_reservation_spends_an_attempt() -> Sequence[Patch]:
    return [
        (decide.FOLLOWS, (stage, Cause.BUDGET), lambda _: decide.Follow.RETRY) for stage in Stage
    ]


def _no_driver_lock() -> Sequence[Patch]:
    return [(driver, "the_only_driver", lambda _: lambda store: nullcontext())]


# -- recovery ------------------------------------------------------------------------------------


def _no_adoption() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def recover_all(state: RunState, seen: Any, host: Any, **more: Any) -> Any:
            return original(state, {name: recover.SeenNothing() for name in seen}, host, **more)

        return recover_all

    return [(take_up, "recover", change)]


def _lock_ignored() -> Sequence[Patch]:
    return [(stems.Stem, "is_locked", lambda _: lambda self: False)]


def _lock_not_inherited() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def spawn(self: supervise.Supervisor, stem: stems.Stem, *args: Any, **more: Any) -> int:
            pid: int = original(self, stem, *args, **more)
            process = supervise.os._machine.table[pid]
            process.descriptors.pop(supervise.LOCK_FD).close()
            return pid

        return spawn

    return [(supervise.Supervisor, "spawn", change)]


def _place_not_inherited() -> Sequence[Patch]:
    return [(places.Places, "descriptor", lambda _: lambda self, stem: None)]


def _short_memory_forgotten() -> Sequence[Patch]:
    def forgetful(original: Any) -> Any:
        def at_once(state: RunState, *rest: Any, **named: Any) -> Any:
            until, state.memory_limit_until = state.memory_limit_until, 0.0
            try:
                return original(state, *rest, **named)
            finally:
                state.memory_limit_until = until

        return at_once

    return [(room, "capacity", forgetful)]


def _no_exit_record() -> Sequence[Patch]:
    return [(stems.Stem, "read_exit", lambda _: lambda self: None)]


def _identity_by_pid() -> Sequence[Patch]:
    def is_alive(identity: processes.Identity) -> bool:
        return processes.start_time_of(identity[0]) is not None

    def signal_if_same(identity: processes.Identity, number: int) -> bool:
        try:
            processes.os.kill(identity[0], number)
        except ProcessLookupError:
            return False
        return True

    return [
        (processes, "is_alive", lambda _: is_alive),
        (processes, "signal_if_same", lambda _: signal_if_same),
    ]


def _boot_ignored() -> Sequence[Patch]:
    def identity(self: supervise.Supervisor, stem: stems.Stem) -> stems.ShimRecord | None:
        return stem.read_shim()

    return [
        (supervise.Supervisor, "identity", lambda _: identity),
        (supervise.Supervisor, "is_of_another_boot", lambda _: lambda self, stem: False),
    ]


def _child_without_shim_ignored() -> Sequence[Patch]:
    return [
        (supervise.Supervisor, "outlives_its_shim", lambda _: lambda self, stem: False),
        (supervise.Supervisor, "_child_of", lambda _: lambda self, stem: None),
    ]


# -- what follows ----------------------------------------------------------------------------------


def _crash_spends_an_attempt() -> Sequence[Patch]:
    return [
        (decide.FOLLOWS, (stage, Cause.CRASH), lambda _: decide.Follow.RETRY) for stage in Stage
    ]


def _limit_spends_an_attempt() -> Sequence[Patch]:
    return [
        (decide.FOLLOWS, (stage, Cause.LIMIT), lambda _: decide.Follow.RETRY) for stage in Stage
    ]


def _session_total_as_cost() -> Sequence[Patch]:
    def metered(self: cost.Meter, before: Any, version: str) -> Any:
        return ({}, 0.0) if self.last is None else (self.last.by_model, self.last.total_usd)

    return [(cost.Meter, "_metered", lambda _: metered)]


def _repeated_usage_added() -> Sequence[Patch]:
    def message(self: cost.Meter, message_id: str, tokens: cost.Tokens, chars: int) -> None:
        self._close(tokens, chars)

    return [(cost.Meter, "message", lambda _: message)]


def _cooldown_forgotten() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def driver_claimed(state: RunState, event: DriverClaimed, entry: Entry) -> None:
            original(state, event, entry)
            state.cooldown_until = None
            for task in state.tasks.values():
                task.not_before = task.not_before and 0.0

        return driver_claimed

    return [(fold.FOLDS, DriverClaimed, change)]


def _breaker_forgotten() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def driver_claimed(state: RunState, event: DriverClaimed, entry: Entry) -> None:
            original(state, event, entry)
            state.breakers = Breakers()
            if state.canary == "model":
                state.canary = ""

        return driver_claimed

    return [(fold.FOLDS, DriverClaimed, change)]


def _runaway_unseen() -> Sequence[Patch]:
    return [(breakers, "too_dear", lambda _: lambda state, lease, events: ())]


def _idleness_unseen() -> Sequence[Patch]:
    return [(breakers, "_did_nothing", lambda _: lambda event: False)]


def _not_barred_by(name: str) -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def bar(self: allowance.Allowance, task: Any) -> Any:
            found = original(self, task)
            return None if found is not None and found.limited_by == name else found

        return bar

    return [(allowance.Allowance, "_bar_of_model", change)]


def _cooldown_unheeded() -> Sequence[Patch]:
    return _not_barred_by("cooldown")


def _canaries_in_crowds() -> Sequence[Patch]:
    return _not_barred_by("canary")


def _full_window_unheeded() -> Sequence[Patch]:
    return [(windows, "limit_at", lambda _: lambda share, most, settings: most)]


def _old_success_opens() -> Sequence[Patch]:
    def passed(state: RunState, lease: Any, ending: Any, now: float) -> Sequence[KnownEvent]:
        is_model = state.canary == "account" and not lease.stage.is_deterministic
        return (CooldownEnded(at=now),) if is_model else ()

    return [(limits, "passed", lambda _: passed)]


def _paused_task_taken() -> Sequence[Patch]:
    return [(admission, "paused_part", lambda _: lambda state, task, mode: None), *_in_the_heap()]


def _in_the_heap() -> Sequence[Patch]:
    """A paused task is kept with the others."""

    def push(state: RunState, task: Any) -> None:
        item = (-task.priority, -task.height, task.added_seq, task.id)
        graph.heapq.heappush(state.ready, item)

    def is_live(state: RunState, item: Any) -> bool:
        task = state.tasks[item[3]]
        return task.status is graph.TaskStatus.READY and -item[0] == task.priority

    return [
        (transitions._INDEXES, graph.TaskStatus.READY, lambda _: push),
        (graph, "push_ready", lambda _: push),
        (graph, "is_live_ready", lambda _: is_live),
        (plan, "is_live_ready", lambda _: is_live),
    ]


def _unpaused_task_forgotten() -> Sequence[Patch]:
    return [(fold_changes, "place_anew", lambda _: lambda state, task: None)]


def _paused_lane_unheeded() -> Sequence[Patch]:
    return [
        (admission, "paused_part", lambda _: lambda state, task, mode: None),
        (allowance, "lane_of", lambda _: lambda stage, mode: ""),
    ]


def _void_entries_taken() -> Sequence[Patch]:
    return [(plan, "is_live_ready", lambda _: lambda state, entry: True)]


def _dependents_left_waiting() -> Sequence[Patch]:
    return [(decide, "doomed_dependents", lambda _: lambda state, task_id: ())]


def _beats_with_news_only() -> Sequence[Patch]:
    async def run(self: heartbeat.Heart) -> None:
        await trio.sleep_forever()

    return [(heartbeat.Heart, "run", lambda _: run)]


def _prompt_tidied_away() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        async def run(self: executor.SupervisedExecutor, work: Any, observe: Any) -> Any:
            ending = await original(self, work, observe)
            self._first(work).prompt.unlink(missing_ok=True)
            return ending

        return run

    return [(executor.SupervisedExecutor, "run", change)]


def _running_task_abandoned() -> Sequence[Patch]:
    def change(original: Any) -> Any:
        def abandon(state: RunState, tasks: Sequence[str], *, reason: str, live: Any) -> Any:
            return original(state, tasks, reason=reason, live=())

        return abandon

    return [(steer, "abandon", change)]


MUTANTS = tuple(
    Mutant(name, mistake, patches)
    for name, mistake, patches in (
        ("no_sync", "a commit is written and not synced", _no_sync),
        ("sync_error_ignored", "a failed sync counts as done", _sync_error_ignored),
        ("short_write_unseen", "what a write took is not looked at", _short_write_unseen),
        ("torn_tail_kept", "a torn tail is not cut before the next commit", _torn_tail_kept),
        ("half_commits_read", "every line counts as a commit", _half_commits_read),
        ("stale_decision", "a commit is not decided anew on others' events", _stale_decision),
        ("spawned_before_durable", "the spawn waits for no intent", _spawned_before_durable),
        ("permission_on_old_plan", "a start is not checked again when it is committed",
         _permission_on_old_plan),
        ("limit_without_the_adopted", "adopted dispatches take no slot",
         _limit_without_the_adopted),
        ("adopted_after_starting", "slots are filled before what is open is taken up",
         _adopted_after_starting),
        ("reservations_ignored", "the budget forgets what is promised", _reservations_ignored),
        ("reservation_kept", "what an ended dispatch had reserved is never given back",
         _reservation_kept),
        ("own_budgets_ignored", "a task's and a stage's budget bind nobody", _own_budgets_ignored),
        ("spent_reservation_spends_an_attempt", "a child that used up its money has failed",
         _spent_reservation_spends_an_attempt),
        ("no_driver_lock", "two drivers may live", _no_driver_lock),
        ("no_adoption", "what an earlier driver left is started again", _no_adoption),
        ("lock_ignored", "recovery does not look at the lock", _lock_ignored),
        ("lock_not_inherited", "the shim does not hold the lock", _lock_not_inherited),
        ("place_not_inherited", "the shim does not hold its place on the host",
         _place_not_inherited),
        ("short_memory_forgotten", "a kill for want of memory lowers no limit",
         _short_memory_forgotten),
        ("no_exit_record", "the exit record is not read", _no_exit_record),
        ("identity_by_pid", "a process is known by its pid alone", _identity_by_pid),
        ("boot_ignored", "pids of an earlier boot are believed", _boot_ignored),
        ("child_without_shim_ignored", "a child whose shim is dead counts as dead",
         _child_without_shim_ignored),
        ("crash_spends_an_attempt", "a crash counts as a verdict", _crash_spends_an_attempt),
        ("limit_spends_an_attempt", "a usage limit counts as a verdict", _limit_spends_an_attempt),
        ("session_total_as_cost", "the session's running total is booked for each call",
         _session_total_as_cost),
        ("repeated_usage_added", "what a message used is booked with each of its lines",
         _repeated_usage_added),
        ("cooldown_forgotten", "a restart forgets the cooldown", _cooldown_forgotten),
        ("breaker_forgotten", "a restart forgets what has tripped", _breaker_forgotten),
        ("runaway_unseen", "nobody looks at what attempts cost", _runaway_unseen),
        ("idleness_unseen", "a call that does nothing is like any other", _idleness_unseen),
        ("cooldown_unheeded", "a model is asked while a rejection holds", _cooldown_unheeded),
        ("canaries_in_crowds", "after a limit all start at once", _canaries_in_crowds),
        ("full_window_unheeded", "the limit does not fall as a window fills",
         _full_window_unheeded),
        ("old_success_opens", "what was out before a limit counts as its canary",
         _old_success_opens),
        ("paused_task_taken", "a paused task is started", _paused_task_taken),
        ("unpaused_task_forgotten", "a task that is let go on is in no heap",
         _unpaused_task_forgotten),
        ("paused_lane_unheeded", "a lane that is paused starts", _paused_lane_unheeded),
        ("void_entries_taken", "a ready entry is taken without a look at its task",
         _void_entries_taken),
        ("dependents_left_waiting", "what can never start is not blocked",
         _dependents_left_waiting),
        ("beats_with_news_only", "the heart beats only when something has changed",
         _beats_with_news_only),
        ("prompt_tidied_away", "a prompt is deleted once it was answered", _prompt_tidied_away),
        ("running_task_abandoned", "a task at work can be abandoned", _running_task_abandoned),
    )
)  # fmt: skip
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
_ = graph
