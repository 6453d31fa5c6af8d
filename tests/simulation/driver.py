"""The programs of a run on a machine: the driver, and a person's commands beside it.

Each is a process of its own.  A kill ends it between two of its calls, and nothing of it, no
``finally`` and no shielded scope, changes the machine after that.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import trio

from adapters.execution.claude.lane import ClaudeLane
from adapters.execution.executor import SupervisedExecutor
from adapters.execution.lanes import Lane
from adapters.execution.steps.lane import StepsLane
from adapters.host.slots import Slots
from drivers.headless.heartbeat import DriverLog, Heart, started
from drivers.headless.lock import the_only_driver
from drivers.headless.outside import Audience, Invocation, Outside, RunEnd
from drivers.headless.run_loop import RunLoop
from orchestrator.core.events import Entry, KnownEvent
from orchestrator.core.model import ENGINE_LANE, Checkpoint, SessionId, Stage
from orchestrator.core.settings import Project, StageSettings
from orchestrator.core.state import RunState
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.disk import FileDisk
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from orchestrator.journal.store import RunStore
from tests.fakes.account import SharedAccount
from tests.simulation.account import VirtualAccount
from tests.simulation.agents import MODEL, Agents
from tests.simulation.machine import PROCESS, Killed, Machine, Process, acting_as
from tests.simulation.shim import VirtualShim
from tests.simulation.system import VirtualHost, VirtualPath, VirtualWatcher

RUN_DIR = "/runs/sim"
JOURNAL = f"{RUN_DIR}/events.jsonl"
SLOTS = "/state/host/slots"
TIMEOUT_S = 120.0
PROJECT = Project(
    name="sim",
    root="/repo",
    models={"default": MODEL},
    stages={stage.value: StageSettings(timeout_s=TIMEOUT_S) for stage in Stage},
)


@dataclass(frozen=True)
class End:
    """How a program ended: by itself, by what it raised, or (neither) killed."""

    run: RunEnd | None = None
    fault: BaseException | None = None

    @property
    def was_killed(self) -> bool:
        return self.run is None and self.fault is None


class Beats(Protocol):
    """Who hears a driver's heart."""

    def written(self, log: bytearray) -> None: ...

    def refused(self) -> None: ...


class Programs:
    def __init__(self, machine: Machine, agents: Agents) -> None:
        self.machine = machine
        self.agents = agents
        self.account = SharedAccount()
        self.store = RunStore(VirtualPath(RUN_DIR))  # type: ignore[arg-type]
        self._sessions = random.Random(machine.rng.random())
        self._ears: dict[str, list[tuple[Process, Callable[[], None]]]] = {}
        self._lanes: dict[str, Lane] = {
            "headless:claude": ClaudeLane(PROJECT, {"HOME": "/home"}, now=machine.wall),
            ENGINE_LANE: StepsLane(PROJECT, {}),
        }

    def make_run(self, first: Sequence[KnownEvent]) -> None:
        data, _ = encode_commit(first, after_seq=0, run_id="sim", now=self.machine.wall())
        file = self.machine.create(JOURNAL)
        file.data += data
        file.sync()

    # -- the driver --------------------------------------------------------------------------

    async def drive(
        self,
        process: Process,
        invocation: Invocation,
        make_audience: Callable[[RunLoop], Audience],
        signals: trio.MemoryReceiveChannel[int],
        beats: "Beats",
    ) -> End:
        """One driver's life, as drivers.headless.main leads it."""

        async def live() -> RunEnd:
            with the_only_driver(self.store):
                run = await self._open()
                outside = self._outside(run)
                audience = _Deferred()
                loop = RunLoop(run, outside, invocation, audience)
                heart = self._heart(loop, beats)
                audience.to, audience.beat = make_audience(loop), heart.changed
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(heart.run)
                        end = await loop.drive(signals)
                        nursery.cancel_scope.cancel()
                except BaseException as fault:
                    heart.stop(type(fault).__name__)
                    raise
                heart.stop(end.reason)
                return end

        return await self._run_as(process, live)

    def _heart(self, loop: RunLoop, beats: "Beats") -> Heart:
        """Begun; ``beats`` is told of each beat that was written, and of each that was not."""
        path, machine, me = self.store.driver_path, self.machine, PROCESS.get()

        def written() -> None:
            if PROCESS.get(None) is me:
                beats.written(machine.files[str(path)].data)

        self._listen(str(path), written)
        heart = Heart(
            DriverLog(path),
            run_id="sim",
            look=loop.pulse,
            now=machine.wall,
            on_fault=lambda fault: beats.refused(),
        )
        host = machine.host()
        heart.start(
            started(
                run_id="sim",
                now=machine.wall(),
                host=host,
                argv=("run-headless",),
                settings=loop.state.settings,
            )
        )
        return heart

    async def command(self, process: Process, act: Callable[[LiveRun, Outside], object]) -> End:
        """A person's command: ``act`` is an async function of the opened run."""

        async def live() -> RunEnd:
            run = await self._open()
            await act(run, self._outside(run))  # type: ignore[misc]
            return RunEnd(reason="done", exit_status=0)

        return await self._run_as(process, live)

    async def _run_as(self, process: Process, live: Callable[[], object]) -> End:
        """In a task whose every call is the process's; a kill from outside cancels it."""
        end = End()
        scope = trio.CancelScope()
        process.on_death = scope.cancel
        with acting_as(process), scope:
            try:
                end = End(run=await live())  # type: ignore[misc]
            except* Killed:
                pass
            except* Exception as group:  # noqa: BLE001 - whatever ends it is judged
                end = End(fault=_the_one(group))
        if not process.is_alive:
            return End()
        process.on_death = None
        self.machine.end(process)
        return end

    async def _open(self) -> LiveRun:
        changed = trio.Event()

        def tell() -> None:
            nonlocal changed
            changed.set()
            changed = trio.Event()

        async def changes() -> None:
            await changed.wait()

        self._listen(JOURNAL, tell)
        disk = FileDisk(self.store.events_path, changes=changes)
        return await LiveRun.open(FileJournal(disk, "sim"))

    def _listen(self, path: str, told: Callable[[], None]) -> None:
        """For as long as the calling process lives."""
        ears = [(who, told) for who, told in self._ears.get(path, ()) if who.is_alive]
        self._ears[path] = [*ears, (PROCESS.get(), told)]
        self.machine.watchers[path] = [told for _, told in self._ears[path]]

    def _outside(self, run: LiveRun) -> Outside:
        slots = Slots(VirtualPath(SLOTS))  # type: ignore[arg-type]
        host = VirtualHost(self.machine, slots)
        executor = SupervisedExecutor(
            stem_of=self.store.stem,
            slug_of=lambda task_id: run.state.tasks[task_id].slug,
            lanes=self._lanes,
            settings=lambda: run.state.settings,
            host=host,
            watcher=VirtualWatcher(self.machine),  # type: ignore[arg-type]
            slots=slots,
        )
        return Outside(
            executor=executor,
            workspace=VirtualWorkspace(self.machine, self.agents),
            host=host,
            account=VirtualAccount(self.account, self.machine),
            run_dir=RUN_DIR,
            new_session=lambda: SessionId(f"{self._sessions.getrandbits(128):032x}"),
        )


class VirtualWorkspace:
    """orchestrator.ports.workspace.Workspace: a worktree's content is a number."""

    def __init__(self, machine: Machine, agents: Agents) -> None:
        self._machine = machine
        self._agents = agents

    async def directory(self, worktree: str) -> str:
        await self._machine.pause(self._machine.call_s())
        return worktree

    async def tree(self, worktree: str) -> str:
        await self._machine.pause(self._machine.call_s())
        slug = worktree.rsplit("/", 1)[-1].split("-r")[0]
        return f"tree-{self._agents.trees.get(slug, 0)}"

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        tree = await self.tree(worktree)
        return Checkpoint(commit=f"c-{tree}", tree=tree, ref=f"refs/{task_slug}/{number}")

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        await self._machine.pause(self._machine.call_s())
        return ()

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        await self._machine.pause(self._machine.call_s())
        return "diff"

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        await self._machine.pause(self._machine.call_s())
        return "ref"

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        await self._machine.pause(self._machine.call_s())
        return ""


class _Deferred:
    """An Audience that is known only after its loop."""

    to: Audience
    beat: Callable[[], None]

    def changed(self) -> None:
        self.beat()
        self.to.changed()

    def committed(self, state: RunState, entry: Entry) -> None:
        self.to.committed(state, entry)

    def say(self, event: str, **values: object) -> None:
        self.to.say(event, **values)


def shims_on(machine: Machine, agents: Agents) -> list[VirtualShim]:
    """Let what the driver spawns be virtual shims; the list grows with them."""
    shims: list[VirtualShim] = []

    def spawned(process: Process, words: dict[str, str]) -> None:
        shims.append(VirtualShim(machine, process, words, agents.make))

    machine.on_spawn = spawned
    return shims


def _the_one(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


NEVER = math.inf
