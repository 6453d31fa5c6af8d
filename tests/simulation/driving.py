"""Set up runs in a World, and drive them as often as it takes."""

import random
from collections.abc import Sequence

import trio

from drivers.headless.outside import Invocation, Outside, RunEnd
from drivers.headless.run_loop import drive_run
from orchestrator.core.events import Entry, KnownEvent, RunCreated, TaskAdded
from orchestrator.core.model import Pipeline, SessionId, TaskId
from orchestrator.core.settings import Project, Settings
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from tests.fakes.account import FakeAccount
from tests.fakes.disk import MemoryDisk
from tests.simulation.world import EPOCH, Quiet, SimExecutor, SimHost, SimWorkspace, World

RUN = "sim"
PROJECT = Project(name="sim", root="/repo")


def task(name: str, *depends_on: str, pipeline: Pipeline | None = None) -> TaskAdded:
    return TaskAdded(
        task_id=TaskId(name),
        slug=name,
        title=f"Task {name}",
        body="text",
        depends_on=tuple(TaskId(d) for d in depends_on),
        pipeline=pipeline,
    )


async def make_run(
    world: World, tasks: Sequence[KnownEvent], settings: Settings | None = None
) -> None:
    journal = FileJournal(MemoryDisk(world.file), RUN)
    created = RunCreated(settings=settings or Settings(), project=PROJECT)
    await journal.commit(0, [created, *tasks], now=EPOCH)


async def drive_once(
    world: World,
    *,
    invocation: Invocation | None = None,
    signals: trio.MemoryReceiveChannel[int] | None = None,
    audience: Quiet | None = None,
) -> RunEnd:
    """One driver's life."""
    disk = MemoryDisk(world.file)
    run = await LiveRun.open(FileJournal(disk, RUN))
    account = FakeAccount(world.account)
    executor = SimExecutor(world, lambda task_id: f"/repo/.worktrees/{RUN}/{task_id}")
    session_rng = random.Random(world.rng.random())
    outside = Outside(
        executor=executor,
        workspace=SimWorkspace(world),
        host=SimHost(world),
        account=account,
        run_dir="/run",
        new_session=lambda: SessionId(f"{session_rng.getrandbits(64):x}"),
    )
    try:
        return await drive_run(
            run, outside, invocation or Invocation(wait=True), audience or Quiet(), signals
        )
    finally:
        account.die()
        disk.die()


async def entries_of(world: World) -> list[Entry]:
    return list(await FileJournal(MemoryDisk(world.file), RUN).read_new())
