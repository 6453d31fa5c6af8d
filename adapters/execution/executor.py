"""The Executor port over supervised children: a lane says what to run and what its words mean.

A dispatch is prepared (files synced, lock held), started, followed and concluded; after a driver's
death it is found and followed again from the same files.  A lane may ask for a second start
within the dispatch, under the stem ``….s2``.

Invariant: what is returned is an Ending whatever a child, a disk or a lane does, and when it is
returned no process of the dispatch is left, but for the survivors that it counts.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import trio

from adapters.execution.appetite import Appetite, Appetites
from adapters.execution.endings import dated, ending_of, not_started, the_one
from adapters.execution.guard import Guard, Legible, Linger
from adapters.execution.lanes import Lane
from adapters.execution.places import Places
from adapters.execution.replay import Replay
from adapters.execution.stems import ShimRecord, Stem, latest_start
from adapters.execution.supervise import Supervisor
from adapters.execution.tail import Tail
from adapters.execution.work_file import read_work, work_of_lease, write_work
from adapters.host.slots import Slots
from adapters.host.watcher import FileWatcher
from orchestrator.core.errors import EnvironmentFault, is_of_the_house
from orchestrator.core.model import (
    ENGINE_LANE,
    Cause,
    ChildExit,
    Ending,
    Stage,
    TaskId,
    WorkItem,
)
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease
from orchestrator.ports.execution import (
    Observe,
    ResultSeen,
    Seen,
    SeenAlive,
    SeenDead,
    SeenEnded,
    SeenNothing,
    Started,
    Unwanted,
)
from orchestrator.ports.host import Host

LOG = logging.getLogger("orchestrator.execution")
FOLLOW_TRIES = 20
FOLLOW_PAUSE_S = 0.5
"""How often, and how soon, a child is followed anew that the machine kept us from following."""
STOP_TRIES = 20
STOP_PAUSE_S = 0.25

StemOf = Callable[[str, Stage, int, int], Path]
"""(task slug, stage, attempt, dispatch) -> the path that the dispatch's files begin with."""


class SupervisedExecutor:
    """The Executor port, for real."""

    def __init__(
        self,
        *,
        stem_of: StemOf,
        slug_of: Callable[[TaskId], str],
        lanes: Mapping[str, Lane],
        settings: Callable[[], Settings],
        host: Host,
        watcher: FileWatcher,
        slots: Slots | None = None,
    ) -> None:
        """``slots``: the places that all drivers of this host share; None: not counted."""
        self._stem_of = stem_of
        self._slug_of = slug_of
        self._lanes = lanes
        self._settings = settings
        self._places = Places(slots, lambda: settings().host_children_max)
        self._supervisor = Supervisor(watcher, host.identity(), settings, self._places.hold)
        self._appetites = Appetites()

    async def prepare(self, work: WorkItem) -> bool:
        stem = self._first(work)
        try:
            if not (work.lane.startswith("interactive:") or self._places.reserve(stem)):
                return False
            await trio.to_thread.run_sync(write_work, stem, work)
            self._supervisor.lock(stem)
            return True
        except BlockingIOError as fault:
            self._places.let_go(stem)
            raise EnvironmentFault(
                f"{work.id} is running already: {stem.lock} is held; wait for it, or stop it"
            ) from fault
        except OSError as fault:
            self._places.let_go(stem)
            raise EnvironmentFault(
                f"cannot prepare {work.id}: {stem.directory}: {fault.strerror or fault}"
            ) from fault

    async def discard(self, work: WorkItem) -> None:
        stem = self._first(work)
        if not stem.was_started():
            for path in (stem.prompt, stem.work, stem.lock):
                path.unlink(missing_ok=True)
        self._supervisor.unlock(stem)
        self._places.let_go(stem)

    async def run(self, work: WorkItem, observe: Observe) -> Ending:
        stem = self._first(work)
        self._places.begin(stem)
        try:
            return await self._patiently(
                work.id,
                stem,
                lambda: self._start(work, stem, observe),
                lambda: self._follow(work, latest_start(stem), observe, spawned=None),
            )
        finally:
            self._supervisor.unlock(stem)
            self._places.let_go(stem)

    async def find(self, lease: Lease) -> Seen:
        stem = latest_start(self._first(lease))
        if stem.is_locked():
            return SeenAlive()
        if stem.read_exit() is not None:
            return SeenEnded()
        if self._supervisor.outlives_its_shim(stem):
            return SeenAlive(shim_lost=True)
        if not stem.was_started():
            return SeenNothing()
        work = read_work(stem, lease)
        if work is None:
            return SeenDead("it was killed, and its work item is lost")
        if await self._says_result(work, stem):
            return SeenEnded()
        if self._supervisor.is_of_another_boot(stem):
            return SeenDead("the machine was restarted")
        return SeenDead("it was killed, and so was its shim")

    async def attach(self, lease: Lease, observe: Observe) -> Ending:
        stem = self._first(lease)

        def follow() -> Awaitable[Ending]:
            latest = latest_start(stem)
            work = read_work(latest, lease) or work_of_lease(lease)
            return self._follow(work, latest, observe, spawned=None)

        try:
            return await self._patiently(lease.work_item_id, stem, follow, follow)
        finally:
            self._places.let_go(stem)

    async def stop(self, lease: Lease) -> int:
        return await self._supervisor.stop(latest_start(self._first(lease)))

    async def _patiently(
        self,
        name: str,
        stem: Stem,
        begin: Callable[[], Awaitable[Ending]],
        go_on: Callable[[], Awaitable[Ending]],
    ) -> Ending:
        """Whatever a lane or a disk does fails one task; but trouble of the whole machine does
        not cost a child its work: it is waited out, and raised where it lasts."""
        act = begin
        for tries_left in range(FOLLOW_TRIES, -1, -1):
            try:
                return await act()
            except Exception as fault:  # noqa: BLE001 - see above
                cause = the_one(fault)
                if not is_of_the_house(cause):
                    return await self._broken(name, latest_start(stem), cause)
                if tries_left == 0:
                    raise cause from None
                LOG.warning("%s: %s; it is followed anew", name, cause)
            self._supervisor.unlock(stem)  # it may not have come to a spawn
            await trio.sleep(FOLLOW_PAUSE_S)
            act = go_on
        raise AssertionError("the last try returns or raises")

    async def _start(self, work: WorkItem, stem: Stem, observe: Observe) -> Ending:
        if stem.was_started():
            return ending_of(Cause.CRASH, f"{work.id} was started before: see {stem.stream}")
        if (lane := self._lanes.get(work.lane)) is None:
            return ending_of(Cause.MISCONFIGURED, f"{work.id}: nobody executes lane {work.lane}")
        command = lane.command(work, stem.prompt, again=stem.is_second)
        tags = {
            "ORCHESTRATOR_RUN": work.run_id,
            "ORCHESTRATOR_TASK": work.task_id,
            "ORCHESTRATOR_DISPATCH": work.id,
        }
        try:
            self._places.hold(stem)
            self._supervisor.lock(stem)
            spawned = self._supervisor.spawn(
                stem,
                command.argv,
                command.env | tags,
                cwd=command.cwd,
                is_worktree=work.lane != ENGINE_LANE,
                stdin=command.stdin,
                deadline_s=work.timeout_s,
                slot=self._places.descriptor(stem),
            )
        except (OSError, ValueError) as fault:  # ValueError: a NUL byte in an argument
            number = (fault.errno or 0) if isinstance(fault, OSError) else 0
            return not_started(work, f"cannot start {command.argv[0]}: {fault}", number)
        return await self._follow(work, stem, observe, spawned=spawned)

    async def _follow(
        self, work: WorkItem, stem: Stem, observe: Observe, *, spawned: int | None
    ) -> Ending:
        lane = self._lanes[work.lane]
        reader = lane.reader(work)
        replay = Replay(stem, work, is_new=spawned is not None)
        linger = Linger()
        legible = lane if isinstance(lane, Legible) else None
        guard = Guard(stem, work, legible, self._settings)
        appetite = Appetite(self._appetites)

        def feed(data: bytes) -> None:
            for observation in replay.dated(data, reader.feed(data)):
                if isinstance(observation, ResultSeen):
                    linger.renew(self._settings().result_linger_s)
                    guard.dismiss()
                elif isinstance(observation, Unwanted):
                    self._supervisor.ask_to_stop(stem)
                observe(observation)
            guard.heard(reader)

        def started(record: ShimRecord) -> None:
            guard.started(record.shim, record.child)
            appetite.started((record.shim, record.child))
            observe(Started(shim=record.shim, child=record.child, started_at=record.started_at))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(linger.then, self._supervisor.stop, stem)
            nursery.start_soon(guard.then, self._supervisor.stop)
            nursery.start_soon(appetite.watch)
            record = await self._supervisor.follow(
                stem, feed, started, spawned=spawned, timeout_s=work.timeout_s
            )
            nursery.cancel_scope.cancel()
        reader.close()
        if record.reason == "spawn_failed":
            return dated(not_started(work, record.error, record.errno), record)
        exit_ = appetite.of(guard.corrected(record.child_exit))
        evidence = guard.evidence(exit_)
        if linger.is_on and exit_.reason in ("stopped", "deadline", "hung"):
            # It had said its result: being ended after that is no failure of it.
            evidence = {"outlived_its_result": exit_.reason}
            exit_ = msgspec.structs.replace(exit_, reason="exited")
        said = lane.conclude(work, reader, exit_, stem.stderr_tail(), again=stem.is_second)
        if isinstance(said, Ending):
            return dated(appetite.judged(said, exit_), record, exit_, evidence)
        if stem.is_second or exit_.reason != "exited":
            return dated(ending_of(Cause.CRASH, said.reason), record, exit_)
        return await self._start(work, stem.second, observe)

    async def _says_result(self, work: WorkItem, stem: Stem) -> bool:
        lane = self._lanes.get(work.lane)
        if lane is None:
            return False
        reader = lane.reader(work)
        seen = False

        def feed(data: bytes) -> None:
            nonlocal seen
            seen = seen or any(isinstance(one, ResultSeen) for one in reader.feed(data))

        with Tail(stem.stream) as tail:
            await tail.feed(feed)
        return seen

    async def _broken(self, name: str, stem: Stem, fault: Exception) -> Ending:
        """A bug, or a disk that fails: end what runs, so that nothing works beside a retry.

        Where not even that can be done, the fault goes on: then nobody may say it has ended.
        """
        LOG.error("%s: unexpected error", name, exc_info=fault)
        self._supervisor.unlock(stem)  # it may not have come to a spawn
        with trio.CancelScope(shield=True):  # stop() has its own bound
            for tries_left in range(STOP_TRIES, -1, -1):
                try:
                    survivors = await self._supervisor.stop(stem)
                    break
                except OSError:
                    if tries_left == 0:
                        raise fault from None
                    await trio.sleep(STOP_PAUSE_S)
        return ending_of(
            Cause.CRASH,
            f"{name}: unexpected {type(fault).__name__}: {fault}",
            ChildExit(reason="stopped", survivors=survivors),
        )

    def _first(self, dispatch: WorkItem | Lease) -> Stem:
        slug = self._slug_of(dispatch.task_id)
        return Stem.first(self._stem_of(slug, dispatch.stage, dispatch.attempt, dispatch.dispatch))
