"""What a seed means: a run, its children's conducts, its faults, and as many drivers as it takes.

    simulate(seed) -> Course        raises Violation

Faults come in swarms: each seed allows some kinds of them, so that rare ones meet.  The first
lives of the driver are cut short; then nothing fails any more but children, and the run must
come to its end.
"""

import errno
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio

from adapters.host.slots import Slots
from drivers.at_work import look
from drivers.headless.outside import Invocation, Outside
from drivers.headless.run_loop import RunLoop
from orchestrator.core import steer
from orchestrator.core.errors import (
    HOUSE_ERRNOS,
    Blocked,
    InvariantBroken,
    JournalDamaged,
    OrchestratorError,
)
from orchestrator.core.events import (
    DispatchReclaimed,
    Entry,
    KnownEvent,
    RunCreated,
    TaskAdded,
)
from orchestrator.core.fold import fold
from orchestrator.core.model import Pipeline, Stage, TaskId, TaskStatus, Window
from orchestrator.core.resources import MB, Resources
from orchestrator.core.settings import Settings
from orchestrator.core.standing import Limit, Standing
from orchestrator.core.state import RunState
from orchestrator.journal.live import LiveRun
from orchestrator.journal.scan import Follower
from tests.simulation.agents import Agents, Dispatch
from tests.simulation.clock import Deadlock, VirtualClock, run_virtually
from tests.simulation.driver import JOURNAL, PROJECT, SLOTS, End, Programs
from tests.simulation.machine import PIDS, Machine, Process, acting_as
from tests.simulation.promises import Promise, Violation
from tests.simulation.shim import VirtualShim
from tests.simulation.steering import CHANGES, has_paused_parts, let_parts_go_on
from tests.simulation.system import VirtualPath, installed
from tests.simulation.witness import Pulse, Witness

CUT_SHORT_MAX = 4
SHARE_OF_30, SHARE_OF_6 = 0.01, 0.09
"""Of all seeds: the first have 30 tasks, those up to the second 6, the others up to 3."""
DRIVERS_MAX = 60
DRIVER_S_MAX = 200_000.0
DAY_S = 86_400.0
ENDS_COMMIT = re.compile(rb'"end":true(?:,"of":(\d+))?\}$')

KILLS = (
    "kill at a step",
    "kill in a write",
    "kill around a spawn",
    "kill at a time",
    "loss of power",
    "reboot",
    "end by signal",
)
DISTURBANCES = (
    "shim killed",
    "child killed",
    "shim and child killed",
    "suspend",
    "clock jumps",
    "disk full for a while",
    "disk full",
    "sync fails",
    "write fails",
    "no descriptors",
    "no processes",
    "program missing",
    "exec format error",
    "stranger with an old pid",
    "command",
    "command killed",
    "second driver",
    "usage limit storm",
    "another driver of the account",
    "memory is short",
    "disk is short",
    "load",
    "places are taken",
    "out of memory",
)
BETWEEN = (
    *("shim killed", "child killed", "shim and child killed"),
    *("stranger with an old pid", "command"),
)
"""Disturbances that also strike while no driver lives."""
AT_ONCE = frozenset(
    {"suspend", "clock jumps", "another driver of the account", "memory is short", "disk is short"}
    | {"load", "places are taken"}
)
"""Disturbances that take effect as they strike; others are counted where somebody meets them."""
TAILS = ("torn line at the end", "NUL bytes at the end", "noise at the end")
HOUSES = ("slow disk", "slow git", "long children", "garbage in the torn tail")
"""What holds for a whole seed."""

COMMANDS = (
    *("pause", "unpause", "requeue", "abandon", "add", "drain", "now"),
    *CHANGES,
)
CONDUCTS: dict[str, tuple[str, ...]] = {
    "any": ("dies", "silent", "hangs", "leaves", "deaf"),
    "client": (
        *("invalid", "work_error", "limit", "outage", "garbage", "twice", "torn"),
        *("no_cost", "negative_cost", "late_cost", "repeats_usage"),
        *("loses_session", "lingers", "unauthorized"),
    ),
    Stage.INTAKE: ("infrastructure",),
    Stage.SCOPE: ("infeasible",),
    Stage.IMPLEMENT: ("no_change",),
    Stage.TEST: ("tests_failed", "infrastructure"),
    Stage.DELIVER: ("infrastructure",),
    Stage.REVIEW: ("rejected",),
}
_ALL_CONDUCTS = frozenset(name for names in CONDUCTS.values() for name in names)
FAULTS = (
    *KILLS,
    *("kill during recovery", "shim killed", "child killed", "shim and child killed"),
    *("out of memory", "un-synced end lost", "length kept, content lost", "directory entry lost"),
    *("name kept, content lost", *TAILS, "short write", "no space", "sync fails", "write fails"),
    *("sync of 4 s and more", "no descriptors", "no processes", "program missing"),
    *("exec format error", "stranger with an old pid", "second driver", "command killed"),
    *sorted(AT_ONCE),
    *(f"command {name}" for name in COMMANDS),
    *("child of an epidemic: idle", "child of an epidemic: dear"),
    *("child of a usage limit storm", *(f"child {name}" for name in sorted(_ALL_CONDUCTS))),
)
"""All that can go wrong, as it is counted where it takes effect."""


@dataclass
class Course:
    """What came of a seed."""

    seed: int
    journal: bytes
    drivers: int
    dispatches: int
    tasks: int
    took_s: float
    """Of a processor."""
    struck: Counter[str]
    """How often each of FAULTS took effect."""
    hows: list[str]
    """How dispatches were taken up again."""


@dataclass
class Story:
    seed: int
    tasks: int
    rng: random.Random
    machine: Machine
    agents: Agents
    programs: Programs
    witness: Witness
    shims: list[VirtualShim] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Those that struck, in order."""
    allowed: frozenset[str] = frozenset()
    conducts: frozenset[str] = frozenset()
    drivers: int = 0
    is_calm: bool = False
    commands: tuple[str, ...] = COMMANDS
    added: int = 0
    spawns_left: int = 0
    """Before a driver dies within an instant of one; 0: it does not."""
    _reader: Follower | None = None
    _read_at: float = 0.0
    _known: RunState | None = None
    _kept: bytes = b""
    """Of the journal, what was durable when last looked at."""

    # -- the run ----------------------------------------------------------------------------------

    def first_events(self) -> list[KnownEvent]:
        rng = self.rng
        names = [f"t{i}" for i in range(self.tasks)]
        settings = Settings(
            max_concurrent=rng.choice((1, 2, 2, 3, 3, 4)),
            failing_tasks_max=rng.choice((3, 100)),
            limit_delay_s=60.0,
            limit_jitter_s=rng.choice((0.0, 10.0)),
            outage_delay_s=5.0,
            retry_delay_s=rng.choice((0.0, 0.0, 3.0)),
            budget_usd=rng.choice((None, None, None, 7.0, 1.5, 0.4)),
            task_budget_usd=rng.choice((None, None, None, 0.8)),
            implement_budget_usd=rng.choice((None, None, None, 0.3)),
            result_linger_s=4.0,
            idle_s=rng.choice((900.0, 50.0)),
            host_children_max=rng.choice((16, 16, 2, 1, 1)),
        )
        return [
            RunCreated(settings=settings, project=PROJECT),
            *(
                TaskAdded(
                    task_id=TaskId(name),
                    slug=name,
                    title=f"Task {name}",
                    body="text",
                    depends_on=tuple(
                        TaskId(d) for d in rng.sample(names[:i], k=min(i, rng.randint(0, 2)))
                    ),
                    pipeline=rng.choice((Pipeline.FULL, Pipeline.LITE, *[Pipeline.MICRO] * 3)),
                )
                for i, name in enumerate(names)
            ),
        ]

    def choose_conduct(self, rng: random.Random, dispatch: Dispatch) -> str:
        if rng.random() < 0.75:
            return "success"
        kind = () if dispatch.stage.is_deterministic else CONDUCTS["client"]
        names = (*CONDUCTS["any"], *kind, *CONDUCTS[dispatch.stage])
        return rng.choice([name for name in names if name in self.conducts] or ["success"])

    async def tell(self) -> None:
        first = self.first_events()
        self.witness.places = first[0].settings.host_children_max  # type: ignore[union-attr]
        self.programs.make_run(first)
        cut_short = self.rng.randint(0, CUT_SHORT_MAX + self.tasks // 6)
        while True:
            self.is_calm = self.drivers >= cut_short
            if self.is_calm:
                self._calm_down()
            end = await self._one_driver()
            self.witness.require_none()
            self._may_end_so(end)
            state = self._state()
            if self.is_calm and state.finalized is not None:
                break
            if self.drivers > DRIVERS_MAX:
                raise Violation(
                    Promise.END, f"{self.drivers} drivers did not bring the run to its end"
                )
            if not end.was_killed or self.is_calm:
                await self._look_after(state)
            await self._between()
        await trio.sleep(60)  # what was left behind has its time to go
        self.witness.require_none()
        self._commits_are_whole()
        state = self.witness.judge(self.entries())
        self.witness.at_the_end(state)

    def _calm_down(self) -> None:
        self.machine.room = None
        self.machine.sync_fails_of = self.machine.writes_fail_of = ""
        self.agents.spawn_fails_with = 0

    # -- one driver -------------------------------------------------------------------------------

    async def _one_driver(self) -> End:
        self.drivers += 1
        self.spawns_left = 0
        process = self.machine.start("driver")
        send, signals = trio.open_memory_channel[int](10)
        over = End()

        pulse = Pulse(self.witness)
        audiences: list[Audience] = []

        def make_audience(loop: RunLoop) -> Audience:
            audiences.append(Audience(self.witness, loop, process))
            return audiences[-1]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._let_parts_go_on)
            if not self.is_calm:
                self._plan_the_end(process, send)
                for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
                    nursery.start_soon(self._disturb, process)
            with trio.move_on_after(DRIVER_S_MAX) as patience:
                invocation = Invocation(wait=self.rng.random() < 0.9)
                over = await self.programs.drive(process, invocation, make_audience, signals, pulse)
            nursery.cancel_scope.cancel()
        if patience.cancelled_caught:
            raise Violation(Promise.END, "a driver waits for ever")
        pulse.look()
        self._the_journal_only_grew()
        for audience in audiences:
            self.machine.struck["kill during recovery"] += over.was_killed and not audience.works
            self._is_what_it_knew(audience)
        return over

    def _the_journal_only_grew(self) -> None:
        data, kept = self.machine.files[JOURNAL].data, self._kept
        if not data.startswith(kept):
            raise Violation(Promise.APPEND, f"of {len(kept)} synced bytes not all are there")
        durable = bytes(data[: self.machine.files[JOURNAL].synced])
        reader = Follower(lambda at, most: durable[at : at + most], JOURNAL)
        _rest(reader)
        self._kept = durable[: reader.offset]

    def _commits_are_whole(self) -> None:
        """By the file's own lines, without the product's reader."""
        count = 0
        for line in self.journal().splitlines():
            count += 1
            if (end := ENDS_COMMIT.search(line)) is not None:
                if count != int(end[1] or 1):
                    raise Violation(Promise.APPEND, f"{count} lines end as a commit of {end[0]!r}")
                count = 0

    def _is_what_it_knew(self, audience: "Audience") -> None:
        """Also by a driver that a kill has ended: until then it lived by its own state."""
        mine, told = audience.loop.state, self._state()
        if mine.seq == told.seq and mine != told:
            raise Violation(Promise.REPLAY, "the journal gives another state than its driver had")

    def _plan_the_end(self, process: Process, send: trio.MemorySendChannel[int]) -> None:
        kinds = [kind for kind in KILLS if kind in self.allowed] or ["kill at a step"]
        kind = self.rng.choice(kinds)
        at_s = self.rng.choice((self.rng.uniform(0, 2), self.rng.uniform(0, 150)))
        if kind == "kill at a step":
            scale = self.rng.choice((10, 60, 400))
            process.dies_at_step = self.rng.randint(1, scale)
            self.faults.append(kind)
            return
        if kind == "kill in a write":
            process.dies_at_write_of, process.writes_left = JOURNAL, self.rng.randint(1, 20)
            self.faults.append(kind)
            return
        if kind == "kill around a spawn":
            self.spawns_left = self.rng.randint(1, 6)
            self.faults.append(kind)
            return

        def strike() -> None:
            if not process.is_alive:
                return
            self.faults.append(kind)
            self.machine.struck[kind] += 1
            match kind:
                case "kill at a time":
                    self.machine.end(process, -signal.SIGKILL)
                case "loss of power":
                    self.machine.lose_power()
                case "reboot":
                    self.machine.reboot()
                case _:
                    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
                    number = self.rng.choice(numbers)
                    send.send_nowait(number)
                    if number == signal.SIGINT and self.rng.random() < 0.5:
                        self.witness.stop_asked = True
                        self.machine.clock.after(1.0, lambda: send.send_nowait(number))

        self.machine.clock.after(at_s, strike)

    async def _disturb(self, driver: Process) -> None:
        kinds = [kind for kind in DISTURBANCES if kind in self.allowed]
        if not kinds:
            return
        kind = self.rng.choice(kinds)
        await trio.sleep(self.rng.choice((self.rng.uniform(0, 5), self.rng.uniform(0, 120))))
        self.faults.append(kind)
        await self._strike(kind, driver)

    async def _strike(self, kind: str, driver: Process | None) -> None:
        machine, rng = self.machine, self.rng
        machine.struck[kind] += kind in AT_ONCE
        match kind:
            case "shim killed":
                self._kill_one(kind, [[shim.process] for shim in self.shims])
            case "child killed":
                self._kill_one(kind, [[life.process] for life in self.agents.lives])
            case "shim and child killed":
                families = [[s.process, s.child] for s in self.shims if s.child is not None]
                self._kill_one(kind, families)
            case "suspend":
                machine.wall_offset += 8 * 3600
            case "clock jumps":
                machine.wall_offset += rng.choice((-600.0, -5.0, 5.0, DAY_S))
            case "disk full for a while":
                machine.room = rng.randint(0, 3000)
                await trio.sleep(rng.uniform(0, 20))
                machine.room = None
            case "disk full":
                machine.room = rng.randint(0, 3000)
            case "sync fails":
                machine.sync_fails_of = rng.choice(("/", JOURNAL, JOURNAL))
                await trio.sleep(rng.uniform(0, 20))
                machine.sync_fails_of = ""
            case "write fails":
                machine.writes_fail_of = rng.choice((JOURNAL, ".prompt.txt", ".stream.jsonl"))
                await trio.sleep(rng.uniform(0, 20))
                machine.writes_fail_of = ""
            case "no descriptors" | "no processes" if driver is not None:
                driver.fails_with = errno.EMFILE if kind == "no descriptors" else errno.EAGAIN
                await trio.sleep(rng.uniform(0, 3))
                driver.fails_with = None
            case "program missing" | "exec format error":
                number = errno.ENOENT if kind == "program missing" else errno.ENOEXEC
                self.agents.spawn_fails_with = number
                await trio.sleep(rng.uniform(0, 10))
                self.agents.spawn_fails_with = 0
            case "stranger with an old pid":
                dead = [life.process.pid for life in self.agents.lives[-5:]]
                dead += [shim.process.pid for shim in self.shims[-5:]]
                for pid in rng.sample(dead, k=len(dead) // 2) + rng.choices(PIDS, k=3):
                    stranger = machine.start_stranger(pid)
                    machine.struck[kind] += stranger is not None and pid in dead
            case "usage limit storm":
                self.agents.limit_until = machine.wall() + rng.uniform(20, 600)
            case "another driver of the account":
                self.programs.account.add(self._said_by_another(), machine.wall())
            case "memory is short":
                await self._with_little(memory_available_bytes=rng.choice((0, 1200 * MB)))
            case "disk is short":
                await self._with_little(disk_free_bytes=0)
            case "load":
                await self._with_little(load_per_core=40.0)
            case "places are taken":
                await self._another_run()
            case "out of memory":
                machine.oom_kills += 1
                self._kill_one(kind, [[life.process] for life in self.agents.lives])
            case "command" | "command killed":
                for _ in range(rng.choice((1, 2, 4))):
                    process = machine.start("command")
                    if kind == "command killed":
                        process.dies_at_step = rng.randint(1, 8)
                    if driver is not None and rng.random() < 0.6:
                        await self._in_the_middle(driver)
                    # One that holds the journal's lock for a while makes the driver decide anew.
                    process.slowness_s = rng.choice((0.0, rng.uniform(0, 8)))
                    await self._command(process)
            case "second driver" if driver is not None and driver.is_alive:
                await self._second_driver(driver)

    def spawned(self, process: Process, words: dict[str, str]) -> None:
        dispatch = self.witness.about_to_start(words)
        shim = VirtualShim(self.machine, process, words, self.agents.make)
        self.shims.append(shim)
        self.witness.started(dispatch, shim)
        driver = process.parent
        if self.spawns_left and driver is not None:
            self.spawns_left -= 1
            if self.spawns_left == 0:
                within_s = self.rng.choice((0.0, self.rng.uniform(0, 0.06)))
                self.machine.clock.after(within_s, lambda: self._kill_around_a_spawn(driver))

    def _kill_around_a_spawn(self, driver: Process) -> None:
        self.machine.struck["kill around a spawn"] += driver.is_alive
        self.machine.end(driver, -signal.SIGKILL)

    def _kill_one(self, kind: str, families: Sequence[Sequence[Process]]) -> None:
        """As the kernel does where memory runs out."""
        alive = [family for family in families if any(process.is_alive for process in family)]
        self.machine.struck[kind] += bool(alive)
        for process in self.rng.choice(alive) if alive else ():
            self.machine.end(process, -signal.SIGKILL)

    def _said_by_another(self) -> Standing:
        now, rng = self.machine.wall(), self.rng
        limit = Limit(at=now, until=rng.choice((None, now + rng.uniform(5, 600))), reason="told")
        window = Window(
            name=rng.choice(("five_hour", "seven_day_sonnet", "seven_day_opus")),
            utilization=rng.uniform(0.5, 1.0),
            resets_at=now + rng.uniform(5, 600),
            status=rng.choice(("allowed", "allowed_warning", "rejected")),
            observed_at=now,
        )
        return rng.choice((Standing(limit=limit), Standing(windows=(window,))))

    async def _with_little(self, **left: float) -> None:
        self.machine.resources = Resources(**left)  # type: ignore[arg-type]
        try:
            await trio.sleep(self.rng.uniform(0, 60))
        finally:
            self.machine.resources = Resources()

    async def _another_run(self) -> None:
        """Whose children take places on the host, until its shims end."""
        shims = self.machine.start("shim of another run")
        shims.is_stranger = True
        with acting_as(shims):
            slots = Slots(VirtualPath(SLOTS))  # type: ignore[arg-type]
            for _ in range(self.rng.randint(1, 4)):
                slots.take(self._state().settings.host_children_max)
        self.witness.others.append(shims)
        try:
            await trio.sleep(self.rng.uniform(0, 60))
        finally:
            self.machine.end(shims)

    async def _in_the_middle(self, driver: Process) -> None:
        """Wait until the driver is in the middle of a commit."""
        entered = self.machine.crowd = trio.Event()
        with trio.move_on_after(30):
            await entered.wait()

    async def _second_driver(self, first: Process) -> None:
        process = self.machine.start("driver")
        log = str(self.programs.store.driver_path)

        def let_in(loop: RunLoop) -> Audience:
            if first.is_alive and log in first.wrote:
                self.witness.violate(Promise.ONE_DRIVER, "a second driver is let in")
            return Audience(self.witness, loop, process)

        _, signals = trio.open_memory_channel[int](1)
        end = await self.programs.drive(
            process, Invocation(wait=True), let_in, signals, Pulse(self.witness)
        )
        if isinstance(end.fault, Blocked):
            self.machine.struck["second driver"] += 1
            if process.wrote & {JOURNAL, log}:
                self.witness.violate(Promise.ONE_DRIVER, "a second driver wrote, and was refused")

    def _may_end_so(self, end: End) -> None:
        """By itself, killed, or with a fault that is a person's to mend."""
        match end.fault:
            case None:
                return
            case InvariantBroken() | JournalDamaged():
                raise Violation(Promise.STATE, f"the driver ends with {end.fault!r}") from end.fault
            case OrchestratorError() if not self.is_calm:
                return
            case OSError(errno=number) if number in HOUSE_ERRNOS and not self.is_calm:
                return
            case _:
                raise Violation(Promise.END, f"the driver ends with {end.fault!r}") from end.fault

    # -- a person ----------------------------------------------------------------

    async def _command(self, process: Process) -> None:
        rng = self.rng
        name = f"t{rng.randrange(self.tasks)}"
        command = rng.choice(self.commands)

        async def act(run: LiveRun, outside: Outside) -> None:
            if command == "abandon":
                at_work = await look(run, outside.executor, outside.host)
                entries = await commit(
                    run, lambda s: steer.abandon(s, [name], reason="", live=at_work(s))
                )
                self.witness.abandoned(entries)
            elif command == "requeue":
                await commit(run, lambda s: steer.requeue(s, [name], reason=""))
            elif command == "add":
                self.added += 1
                new = steer.NewTask(id=TaskId(f"new{self.added}"), title="more")
                await commit(run, lambda s: steer.add_tasks(s, [new]))
            elif command in CHANGES:
                await commit(run, CHANGES[command](rng, name))
            elif command in ("drain", "now"):
                await commit(run, lambda s: steer.stop(s, how=command, by="person"))
            elif command == "pause":
                await commit(run, lambda s: steer.pause(s, reason="test", by="person"))
            else:
                await commit(run, lambda s: steer.unpause(s, by="person"))

        async def commit(
            run: LiveRun, decide: Callable[[RunState], list[KnownEvent]]
        ) -> Sequence[Entry]:
            return await run.commit(decide, now=self.machine.wall())

        if command == "now":
            self.witness.stop_asked = True
        self.faults[-1:] = [f"{self.faults[-1]}: {command}"] if self.faults else []
        end = await self.programs.command(process, act)
        is_damage = isinstance(end.fault, (InvariantBroken, JournalDamaged))
        if isinstance(end.fault, OrchestratorError) and not is_damage:
            return
        if end.fault is not None and not isinstance(end.fault, OSError):
            what = f"command {command} ends with {end.fault!r}"
            raise Violation(Promise.STATE, what) from end.fault
        self.machine.struck[f"command {command}"] += not end.was_killed

    async def _look_after(self, state: RunState) -> None:
        """A person who comes by: mends what a driver stopped for."""
        held = [task.id for task in state.tasks.values() if task.status is TaskStatus.HELD]

        async def act(run: LiveRun, outside: Outside) -> None:
            now = self.machine.wall()
            await run.commit(lambda s: steer.unpause(s, by="person") if s.paused else [], now=now)
            await run.commit(let_parts_go_on, now=now)
            for name in ("budget_usd", "task_budget_usd", "implement_budget_usd"):
                budget = getattr(run.state.settings, name)
                if budget is not None:
                    raised = {name: str(budget + 20 + run.state.totals.cost_usd)}
                    more = partial(steer.change_settings, pairs=raised, by="me")
                    await run.commit(more, now=now)
            if held and self.is_calm:
                again = [name for name in held if state.tasks[name].round < 3]
                for name in held:
                    if name in again:
                        await run.commit(partial(steer.requeue, tasks=[name], reason=""), now=now)
                    else:
                        give_up = partial(steer.abandon, tasks=[name], reason="", live=())
                        await run.commit(give_up, now=now)

        if state.finalized is None:
            await self.programs.command(self.machine.start("command"), act)

    async def _let_parts_go_on(self) -> None:
        """While a driver waits for just that."""
        while True:
            await trio.sleep(self.rng.uniform(30, 300))
            if has_paused_parts(self._state()):

                async def act(run: LiveRun, outside: Outside) -> None:
                    await run.commit(let_parts_go_on, now=self.machine.wall())

                self.machine.room = None  # on a full disk it could not be said
                await self.programs.command(self.machine.start("command"), act)

    async def _between(self) -> None:
        """No driver lives."""
        if not self.is_calm:
            for kind in BETWEEN:
                if kind in self.allowed and self.rng.random() < 0.4:
                    self.faults.append(f"{kind}, no driver")
                    await self._strike(kind, None)
            if "loss of power" in self.allowed and self.rng.random() < 0.1:
                self.faults.append("loss of power, no driver")
                self.machine.struck["loss of power"] += 1
                self.machine.lose_power()
        await trio.sleep(self.rng.choice((0.0, self.rng.uniform(0, 3), self.rng.uniform(0, 100))))
        if "garbage in the torn tail" in self.allowed and self.rng.random() < 0.3:
            self._tear_the_tail()

    def _tear_the_tail(self) -> None:
        """A writer died in the middle, and the disk filled up what it had not written."""
        journal = self.machine.files[JOURNAL]
        line = bytes(journal.data).rstrip(b"\n").rsplit(b"\n", 1)[-1]
        kind = self.rng.randrange(3)
        torn = line[: self.rng.randrange(1, max(2, len(line)))]
        noise = self.rng.randbytes(20).replace(b"\n", b" ")
        journal.data += (torn, b"\0" * len(torn), noise)[kind]
        self.machine.struck[TAILS[kind]] += 1

    # -- what is there ------------------------------------------------------------

    def journal(self) -> bytes:
        return bytes(self.machine.files[JOURNAL].data)

    def entries(self) -> list[Entry]:
        """All of the journal, as a new reader finds it."""
        return _rest(Follower(self._read, JOURNAL))

    def _state(self) -> RunState:
        """The same as a reader finds it that stays: until the power goes, nothing is unsaid."""
        if self._reader is None or self._read_at <= self.machine.power_lost_at:
            self._reader, self._known = Follower(self._read, JOURNAL), None
        self._read_at = self.machine.clock.now
        for entry in _rest(self._reader):
            self._known = fold(self._known, entry)
        assert self._known is not None
        return self._known

    def _read(self, offset: int, bytes_max: int) -> bytes:
        return bytes(self.machine.files[JOURNAL].data[offset : offset + bytes_max])


def _rest(reader: Follower) -> list[Entry]:
    entries: list[Entry] = []
    while found := reader.next_batch().entries:
        entries += found
    return entries


class Audience:
    """Hears the driver, for the witness."""

    def __init__(self, witness: Witness, loop: RunLoop, process: Process) -> None:
        self._witness = witness
        self._process = process
        self.loop = loop
        self.works = False
        """It has taken up what was there, and made a plan."""

    def changed(self) -> None:
        if self._process.is_alive:
            self.works = True
            self._witness.nothing_waits(self.loop)

    def committed(self, state: RunState, entry: Entry) -> None:
        pass

    def say(self, event: str, **values: object) -> None:
        pass


def begin(seed: int, tasks: int | None = None) -> Story:
    rng = random.Random(seed)
    machine = Machine(rng, VirtualClock())
    agents = Agents(machine, rng, lambda rng, dispatch: story.choose_conduct(rng, dispatch))
    witness = Witness(machine, agents)
    story = Story(
        seed=seed,
        tasks=tasks or _some_tasks(rng),
        rng=rng,
        machine=machine,
        agents=agents,
        programs=Programs(machine, agents),
        witness=witness,
        allowed=_swarm(rng, (*KILLS, *DISTURBANCES, *HOUSES)),
        conducts=_swarm(rng, sorted(_ALL_CONDUCTS)),
    )
    machine.on_spawn = story.spawned
    machine.on_signal = witness.signalled
    _furnish(story)
    return story


def _some_tasks(rng: random.Random) -> int:
    """Mostly few: a course takes as long as its dispatches do."""
    share = rng.random()
    return 30 if share < SHARE_OF_30 else 6 if share < SHARE_OF_6 else rng.choice((1, 1, 2, 2, 3))


def _swarm(rng: random.Random, kinds: Sequence[str]) -> frozenset[str]:
    share = rng.choice((0.2, 0.4, 0.7))
    return frozenset(kind for kind in kinds if rng.random() < share)


def _furnish(story: Story) -> None:
    machine, rng, allowed = story.machine, story.rng, story.allowed
    slow = rng.choice((0.02, 0.3, 5.0)) if "slow disk" in allowed else 0.0
    machine.sync_s = lambda: rng.uniform(0, slow) if rng.random() < 0.3 else 0.0
    slow_git = 2.0 if "slow git" in allowed else 0.0
    machine.call_s = lambda: rng.uniform(0, slow_git) if rng.random() < 0.3 else 0.0
    of_its_own = random.Random(-1 - story.seed)
    for conduct, share in (("idle", 0.1), ("dear", 0.25)):
        if of_its_own.random() < share:
            first = of_its_own.randint(1, 6)
            story.agents.epidemics[conduct] = range(first, first + of_its_own.randint(4, 14))
    story.agents.lasts_s_max = 60.0 if "long children" in allowed else 12.0


def simulate(seed: int, tasks: int | None = None) -> Course:
    """Raises Violation, or whatever else went wrong, with the line that replays it."""
    began = time.process_time()
    story = begin(seed, tasks)
    try:
        perform(story)
        entries = story.entries()
    except Exception as fault:
        more = f" --tasks {tasks}" if tasks else ""
        fault.add_note(f"replay it: scripts/simulate --seed {seed}{more}")
        raise
    return Course(
        seed=seed,
        journal=story.journal(),
        drivers=story.drivers,
        dispatches=len(story.witness.starts),
        tasks=story.tasks,
        took_s=time.process_time() - began,
        struck=story.machine.struck,
        hows=[e.event.how for e in entries if isinstance(e.event, DispatchReclaimed)],
    )


def perform(story: Story) -> None:
    try:
        with installed(story.machine):
            run_virtually(story.tell, story.machine.clock, story.seed)
    except BaseException as fault:
        match first := _first(fault):
            case InvariantBroken():
                raise Violation(Promise.STATE, str(first)) from fault
            case JournalDamaged():
                raise Violation(Promise.APPEND, str(first)) from fault
            case Deadlock():
                raise Violation(Promise.END, str(first)) from fault
            case _:
                raise first from fault


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
