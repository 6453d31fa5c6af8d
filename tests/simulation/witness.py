"""Who watches a simulated run: what must hold, whatever happens.

The machine's truth (processes, files, what children did) is compared with the journal's.  What
can only be seen at the instant (overlap, an effect without its intent, a signal to a stranger)
is looked at as it happens; the journal is gone through entry by entry at the end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from drivers.headless.run_loop import RunLoop
from orchestrator.core.budget import RESERVATION_USD_MIN
from orchestrator.core.choice import effort_of, model_of
from orchestrator.core.events import (
    AttemptRefunded,
    CooldownEnded,
    CooldownStarted,
    DispatchReclaimed,
    Entry,
    KnownEvent,
    RetryScheduled,
    RunPaused,
    SettingsChanged,
    StageDispatched,
    StageRecorded,
    TaskAbandoned,
    Unknown,
)
from orchestrator.core.fold import fold
from orchestrator.core.model import Mode, Outcome, Stage, TaskStatus, Window, lane_of
from orchestrator.core.plan import barred
from orchestrator.core.rates import share_per_usd
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.core.windows import ends_at, model_in
from tests.simulation.agents import PRICE, TOKENS_IN, Agents, Dispatch, Life
from tests.simulation.driver import JOURNAL, TIMEOUT_S
from tests.simulation.fuses import Fuses
from tests.simulation.machine import Machine, Process
from tests.simulation.promises import Promise, Violation
from tests.simulation.shim import VirtualShim

VERDICTS = frozenset(
    {"work_error", "invalid", "rejected", "tests_failed", "no_change", "infrastructure"}
    | {"hangs", "idle"}
)
"""Conducts that may spend an attempt: the work was judged, or its time ran out."""
GOOD = frozenset(
    {"success", "leaves", "garbage", "twice", "torn", "no_cost", "negative_cost", "loses_session"}
    | {"lingers", "deaf", "dear", "late_cost", "repeats_usage"}
)
"""Conducts that come to a good result."""
USD_EXACT = 1e-6
PROMPT_USD_MAX = 0.01
"""What a client is charged of which only its first word is left."""
FULL = 1.0 - Settings().headroom_share
"""Of a usage window: beyond is the human's."""
PROMISED = b'"next_heartbeat_within_s":'
SOON_S = 1e-3
"""The journal's times are rounded."""


def _is_full(window: Window) -> bool:
    """Also where no more of it is used than leaves the human's part."""
    return window.status == "rejected" or (window.utilization or 0.0) >= FULL


@dataclass
class Start:
    """A shim that was spawned."""

    dispatch: Dispatch
    shim: VirtualShim
    running: int
    """Dispatches that had a live process then, this one included."""


@dataclass
class Witness:
    machine: Machine
    agents: Agents
    starts: dict[str, Start] = field(default_factory=dict)
    """By stem."""
    live: dict[str, Start] = field(default_factory=dict)
    """Of those, the ones that may still run: who has ended, has ended for good."""
    violation: Violation | None = None
    others: list[Process] = field(default_factory=list)
    """Of another run on this host; each holds its places while it lives."""
    places: int = 0
    """Children that all drivers of the host may have."""
    stop_asked: bool = False
    """Somebody asked for children to be stopped."""
    money: "Money" = field(default_factory=lambda: Money())
    fuses: Fuses = field(default_factory=Fuses)

    def violate(self, promise: Promise, what: str) -> None:
        """Kept, because what happens on the machine cannot raise into the run."""
        if self.violation is None:
            self.violation = Violation(promise, f"at {self.machine.clock.now:.3f} s: {what}")

    def require_none(self) -> None:
        if self.violation is not None:
            raise self.violation

    # -- at the instant -------------------------------------------------------------------------

    def about_to_start(self, words: dict[str, str]) -> Dispatch:
        dispatch = Dispatch.of(words)
        journal = self.machine.files[JOURNAL]
        intent = f'"work_item_id":"{dispatch.key}"'.encode()
        if journal.data.rfind(intent, 0, journal.synced) < 0:
            self.violate(
                Promise.INTENT, f"{dispatch.key} is started, and no intent of it is durable"
            )
        if dispatch.stem in self.starts:
            self.violate(Promise.ONCE, f"{dispatch.stem} is started twice")
        if dispatch.is_second:
            first = next((s for s in self.starts.values() if s.dispatch.key == dispatch.key), None)
            if first is None:
                self.violate(Promise.ONCE, f"{dispatch.stem} is a second start without a first")
        for start in self._running():
            if start.dispatch.slug == dispatch.slug:
                self.violate(
                    Promise.ONCE,
                    f"{dispatch.key} runs beside {start.dispatch.key}, in one worktree",
                )
        return dispatch

    def started(self, dispatch: Dispatch, shim: VirtualShim) -> None:
        running = {start.dispatch.key for start in self._running()}
        self._has_a_place(dispatch)
        start = Start(dispatch, shim, len(running | {dispatch.key}))
        self.starts[dispatch.stem] = self.live[dispatch.stem] = start

    def _has_a_place(self, dispatch: Dispatch) -> None:
        """A second start of an adopted dispatch goes on without one where none is free."""
        shims = 1 + sum(start.shim.process.is_alive for start in self._running())
        held = sum(len(other.descriptors) for other in self.others)
        if shims + held > self.places and not dispatch.is_second:
            self.violate(
                Promise.LIMIT,
                f"{dispatch.key}: {shims} shims beside {held} of others, {self.places} may be",
            )

    def signalled(self, process: Process, number: int) -> None:
        if process.is_stranger or process.name in ("driver", "command"):
            self.violate(
                Promise.HEALTHY, f"signal {number} is sent to {process.name} {process.pid}"
            )
        life = self.agents.by_process.get(process)
        if life is not None and not self._may_be_stopped(life):
            self.violate(
                Promise.HEALTHY, f"signal {number} is sent to a healthy child: {life.dispatch.key}"
            )

    def _may_be_stopped(self, life: Life) -> bool:
        age_s = self.machine.clock.now - life.began_at
        return (
            self.stop_asked
            or life.result_line != b""
            or life.conduct in ("hangs", "silent")
            or age_s >= TIMEOUT_S
        )

    def abandoned(self, entries: Sequence[Entry]) -> None:
        running = {dispatch.key for dispatch in self.running()}
        for entry in entries:
            if isinstance(entry.event, TaskAbandoned) and entry.event.work_item_id in running:
                self.violate(
                    Promise.RESULTS, f"{entry.event.work_item_id} is abandoned while it runs"
                )

    def running(self) -> list[Dispatch]:
        return [start.dispatch for start in self._running()]

    def _running(self) -> list[Start]:
        self.live = {stem: s for stem, s in self.live.items() if self._is_running(s)}
        return list(self.live.values())

    def _is_running(self, start: Start) -> bool:
        shim = start.shim
        return shim.process.is_alive or any(member.is_alive for member in self._members(start))

    def _members(self, start: Start) -> list[Process]:
        life = self._life(start.shim)
        if life is not None:
            return life.members
        return [] if start.shim.child is None else [start.shim.child]

    def _life(self, shim: VirtualShim) -> Life | None:
        return None if shim.child is None else self.agents.by_process.get(shim.child)

    def nothing_waits(self, loop: RunLoop) -> None:
        """Work conservation: no stage that could start waits beside a free slot."""
        state, now = loop.state, self.machine.wall()
        preparing, closing = loop._dispatches.preparing, loop._closing
        if (
            closing.how
            or closing.number is not None
            or state.finalized is not None
            or barred(state)
        ):
            return
        if state.canary or any(
            getattr(state.settings, name) is not None
            for name in ("budget_usd", "task_budget_usd", "implement_budget_usd")
        ):
            return
        capacity = loop._capacity
        free = capacity.in_all.limit - len(state.in_flight) - len(preparing)
        is_limited = (
            capacity.limit < capacity.in_all.limit
            or (state.cooldown_until or 0.0) > now
            or any(share_per_usd(rate) for rate in state.window_rates.values())
            or any(_is_full(w) and ends_at(w) > now for w in state.windows.values())
        )
        paused = state.settings.paused_lanes
        is_limited = is_limited or lane_of(Stage.REVIEW, Mode.HEADLESS) in paused
        ready = [
            task.id
            for task in state.tasks.values()
            if task.status is TaskStatus.READY
            and task.id not in preparing
            and task.paused is None
            and lane_of(task.stage, Mode.HEADLESS) not in paused
            and not (is_limited and (task.stage is Stage.INTAKE or not task.stage.is_deterministic))
        ]
        if free > 0 and ready:
            self.violate(Promise.WAITS, f"{ready} wait beside {free} free slots")

    # -- the whole journal ------------------------------------------------------------------------

    def judge(self, entries: list[Entry]) -> RunState:
        """Go through it; returns the state it gives."""
        state: RunState | None = None
        cooldown_until = -math.inf
        attempts_spent = 0
        recorded: dict[str, StageRecorded] = {}
        excused: set[str] = set()
        for entry in entries:
            event = entry.event
            if isinstance(event, StageDispatched) and state is not None:
                self._may_dispatch(state, event, entry, cooldown_until)
            if isinstance(event, AttemptRefunded) and state is not None:
                present = state.tasks[event.task_id].attempts[event.stage]
                attempts_spent -= present - event.attempt
            state = fold(state, entry)
            self.money.look(state, event)
            self.fuses.look(state, event, self._conduct_of(event))
            match event:
                case StageDispatched():
                    self._keeps_limits(state, event, entry)
                case CooldownStarted(task_id=None, until=until):
                    cooldown_until = until
                case CooldownEnded(by=by):
                    if not by and entry.ts < cooldown_until - SOON_S:
                        raise Violation(
                            Promise.WAITS,
                            "a limit is over before its time, and nobody else said so",
                        )
                    cooldown_until = -math.inf
                case StageRecorded(work_item_id=key):
                    if key in recorded:
                        raise Violation(Promise.RESULTS, f"{key} is recorded twice")
                    recorded[key] = event
                    self._is_true(event)
                case RetryScheduled(spends_attempt=True):
                    attempts_spent += 1
                case DispatchReclaimed(work_item_id=key, how="redispatched"):
                    excused.add(key)
                    if any(self._is_on_disk(life) for life in self._lives_of(key)):
                        raise Violation(
                            Promise.ONCE, f"{key} is dispatched again, and it had been started"
                        )
                case TaskAbandoned(work_item_id=str(key)):
                    excused.add(key)
                case _:
                    pass
        assert state is not None
        if state.audit.attempts_spent != attempts_spent:
            raise Violation(Promise.ATTEMPTS, "the attempts do not add up")
        lost = {s.dispatch.key for s in self.starts.values()} - recorded.keys() - excused
        if state.finalized is not None and lost:
            raise Violation(Promise.RESULTS, f"results are lost: {', '.join(sorted(lost))}")
        self._ledger(state, recorded, excused)
        return state

    def _conduct_of(self, event: KnownEvent | Unknown) -> str:
        """Of the child that came to its end; "" where none did."""
        lives = self._lives_of(event.work_item_id) if isinstance(event, StageRecorded) else []
        return lives[-1].conduct if lives and lives[-1].finished else ""

    def _may_dispatch(
        self, state: RunState, event: StageDispatched, entry: Entry, cooldown_until: float
    ) -> None:
        key, task = event.work_item_id, state.tasks[event.task_id]
        if not event.stage.is_deterministic:
            self._may_ask_a_model(state, event, entry, cooldown_until)
        if state.paused is not None or state.stop_requested is not None:
            raise Violation(
                Promise.WAITS, f"{key} is dispatched in a run that is paused or stopping"
            )
        if task.paused is not None or event.lane in state.settings.paused_lanes:
            raise Violation(Promise.WAITS, f"{key} is dispatched, and it or its lane is paused")
        chosen = model_of(state, task, event.stage), effort_of(state, task, event.stage)
        if (event.model, event.effort) != chosen:
            raise Violation(Promise.WAITS, f"{key} is dispatched to {event.model}, not {chosen}")
        for need in task.depends_on:
            other = state.tasks.get(need)
            if other is not None and other.status is not TaskStatus.COMPLETED and not task.stale:
                raise Violation(Promise.ORDER, f"{key} is dispatched before {need} is completed")

    def _may_ask_a_model(
        self, state: RunState, event: StageDispatched, entry: Entry, cooldown_until: float
    ) -> None:
        key = event.work_item_id
        if entry.ts < cooldown_until - SOON_S:
            raise Violation(
                Promise.WAITS, f"{key} is dispatched {cooldown_until - entry.ts:.0f} s too early"
            )
        others = [lease for lease in state.in_flight.values() if not lease.stage.is_deterministic]
        if state.canary and others:
            raise Violation(Promise.WAITS, f"{key} is dispatched beside the canary")
        for window in state.windows.values():
            is_meant = model_in(window.name) in event.model
            if is_meant and _is_full(window) and ends_at(window) > entry.ts + SOON_S:
                raise Violation(Promise.WAITS, f"{key} is dispatched, and {window.name} is full")

    def _keeps_limits(self, state: RunState, event: StageDispatched, entry: Entry) -> None:
        limit, totals = state.settings.max_concurrent, state.totals
        if entry.ts < state.memory_limit_until - SOON_S:
            limit = min(limit, state.memory_limit)
        if len(state.in_flight) > limit:
            raise Violation(
                Promise.LIMIT, f"{event.work_item_id}: {len(state.in_flight)} are out, of {limit}"
            )
        for life in self._lives_of(event.work_item_id):
            running = self.starts[life.dispatch.stem].running
            if running > limit:
                raise Violation(Promise.LIMIT, f"{event.work_item_id}: {running} run, of {limit}")
        if event.stage.is_deterministic:
            return
        task, settings = state.tasks[event.task_id], state.settings
        reserved = event.max_budget_usd or 0.0
        is_implement = event.stage is Stage.IMPLEMENT
        for budget, promised in (
            (settings.budget_usd, totals.cost_usd + totals.reserved_usd),
            (settings.task_budget_usd, task.cost_usd + reserved),
            (
                settings.implement_budget_usd if is_implement else None,
                task.stage_usd.get(event.stage, 0.0) + reserved,
            ),
        ):
            if budget is None:
                continue
            if event.max_budget_usd is None:
                raise Violation(Promise.MONEY, f"{event.work_item_id} reserves nothing of a budget")
            if promised > budget + USD_EXACT:
                raise Violation(
                    Promise.MONEY, f"{event.work_item_id}: more is promised than a budget holds"
                )

    def _is_true(self, event: StageRecorded) -> None:
        """What was recorded is what happened."""
        key, lives = event.work_item_id, self._lives_of(event.work_item_id)
        life = lives[-1] if lives else None
        if event.exit.reason == "shim_lost" and life is not None and self._exit_record(life):
            raise Violation(Promise.RESULTS, f"{key} has an exit record, and it was not read")
        if event.cause is None:
            if life is None or life.conduct not in GOOD | {"no_change"}:
                raise Violation(Promise.RESULTS, f"{key} is recorded as a success, and was none")
            return
        spends = event.outcome in (Outcome.RETRY, Outcome.SENT_BACK)
        if spends and (life is None or life.conduct not in VERDICTS):
            conduct = life.conduct if life else "never started"
            raise Violation(
                Promise.ATTEMPTS, f"{key} spends an attempt for {event.cause} ({conduct})"
            )
        if life is None or life.conduct not in GOOD or not life.finished:
            return
        if self._result_is_there(life):
            raise Violation(
                Promise.RESULTS, f"{key} had finished its work, and is recorded as {event.cause}"
            )

    def _result_is_there(self, life: Life) -> bool:
        file = self.machine.files.get(f"{life.dispatch.stem}.stream.jsonl")
        return file is not None and life.result_line != b"" and life.result_line in file.data

    def _exit_record(self, life: Life) -> bool:
        file = self.machine.files.get(f"{life.dispatch.stem}.exit.json")
        return file is not None and file.data.endswith(b"}\n")

    def _is_on_disk(self, life: Life) -> bool:
        """A loss of power may take every trace of a start."""
        return life.began_at > self.machine.power_lost_at

    def _lives_of(self, key: str) -> list[Life]:
        return self.agents.by_key.get(key, [])

    def _ledger(
        self, state: RunState, recorded: dict[str, StageRecorded], excused: set[str]
    ) -> None:
        """Every token of a recorded dispatch once, as far as its stream still says it."""
        most = least = 0.0
        for life in self.agents.lives:
            usd = (life.spent * PRICE.output + (life.spent > 0) * TOKENS_IN * PRICE.input) / 1e6
            most += usd
            most += PROMPT_USD_MAX * (life.spent == 0 and not life.dispatch.stage.is_deterministic)
            file = self.machine.files.get(f"{life.dispatch.stem}.stream.jsonl")
            said = b'"output_tokens":%d}' % life.spent
            # A line that a loss of power has torn says nothing.
            whole_lines = [] if file is None else bytes(file.data).split(b"\n")[:-1]
            is_kept = any(said in line for line in whole_lines)
            if life.dispatch.key in recorded and is_kept:
                least += usd
        total = state.totals.cost_usd
        if not least - USD_EXACT <= total <= most + USD_EXACT:
            raise Violation(
                Promise.MONEY, f"the ledger says {total:.6f} USD, of {least:.6f} to {most:.6f}"
            )

    def at_the_end(self, state: RunState) -> None:
        if self.running():
            names = ", ".join(dispatch.key for dispatch in self.running())
            raise Violation(Promise.NOBODY_LEFT, f"the run has ended, and these live on: {names}")
        for task in state.tasks.values():
            if not task.status.is_terminal:
                raise Violation(Promise.END, f"task {task.id} is {task.status} at the run's end")
        for start in self.starts.values():
            self._is_kept(start.dispatch)

    def _is_kept(self, dispatch: Dispatch) -> None:
        """The prompt is synced before the start, so that not even a loss of power takes it."""
        prompt = self.machine.files.get(f"{dispatch.stem.removesuffix('.s2')}.prompt.txt")
        if prompt is None or not prompt.data:
            raise Violation(Promise.KEPT, f"the prompt of {dispatch.key} is gone")
        lives = [life for life in self._lives_of(dispatch.key) if life.dispatch == dispatch]
        was_synced = lives and self._is_on_disk(lives[0])
        if was_synced and f"{dispatch.stem}.stream.jsonl" not in self.machine.files:
            raise Violation(Promise.KEPT, f"the stream of {dispatch.key} is gone")


@dataclass
class Pulse:
    """One driver's heartbeats: after each comes another, or its end, within what it promised."""

    witness: Witness
    due_s: float = math.inf

    def written(self, log: bytearray) -> None:
        self.look()
        if log.endswith(b"\n"):
            _, _, rest = log[log.rfind(PROMISED) :].partition(PROMISED)
            within_s = float(rest.partition(b"\n")[0].partition(b",")[0].strip(b"}"))
            self.due_s = self.witness.machine.clock.now + within_s

    def refused(self) -> None:
        """By a disk that takes nothing: it says so, and goes on."""
        self.due_s = math.inf

    def look(self) -> None:
        late_s = self.witness.machine.clock.now - self.due_s
        if late_s > SOON_S:
            self.witness.violate(Promise.PULSE, f"a heartbeat is {late_s:.1f} s too late")


@dataclass
class Money:
    """After every event: no more is spent and promised than the budget held, but for the turns
    with which children passed what was reserved for them."""

    most_usd: float = math.inf
    reserved: dict[str, float] = field(default_factory=dict)

    def look(self, state: RunState, event: KnownEvent | Unknown) -> None:
        totals, budget = state.totals, state.settings.budget_usd
        promised = totals.cost_usd + totals.reserved_usd
        match event:
            case SettingsChanged(changes=changes) if "budget_usd" in changes:
                self.most_usd = math.inf if budget is None else max(budget, promised)
            case StageDispatched(work_item_id=key, max_budget_usd=usd):
                self.reserved[key] = usd or 0.0
                if budget is not None:
                    self.most_usd = min(self.most_usd, max(budget, promised))
            case StageRecorded(work_item_id=key, cost=cost) if cost is not None:
                self.most_usd += max(0.0, cost.cost_usd - self.reserved.pop(key, 0.0))
            case RunPaused(reason=reason) if reason.startswith("budget:"):
                if state.in_flight or (budget or 0.0) - totals.cost_usd >= RESERVATION_USD_MIN:
                    raise Violation(
                        Promise.MONEY, "the run pauses at its budget, and there is money left"
                    )
            case _:
                pass
        if promised > self.most_usd + USD_EXACT:
            raise Violation(
                Promise.MONEY, f"{promised:.6f} USD are spent and promised, of {self.most_usd:.6f}"
            )
