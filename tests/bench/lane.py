"""The bench lane: the real loop, journal and recovery over an executor that does nothing.

What it costs is our own overhead: no git, no shim, no model.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from adapters.host.local import LocalHost
from drivers.headless.derived import Derived
from drivers.headless.outside import Invocation, Outside
from drivers.headless.run_loop import RunLoop
from orchestrator.core.events import Entry, KnownEvent, RunCreated, TaskAdded
from orchestrator.core.model import (
    Checkpoint,
    Ending,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItem,
)
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import Lease, RunState
from orchestrator.journal.disk import FileDisk
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from orchestrator.journal.store import RunRoot, RunStore
from orchestrator.ports.execution import Observe, Seen, SeenNothing
from tests.fakes.account import FakeAccount, SharedAccount

CONCURRENT = 4

OUTPUTS: dict[Stage, dict[str, object]] = {
    Stage.INTAKE: {"start_commit": "0" * 40, "branch": "b", "worktree": "w"},
    Stage.SCOPE: {"feasible": True, "plan": ["a"], "risks": []},
    Stage.IMPLEMENT: {"summary": "s", "files_changed": ["f"], "notes": ""},
    Stage.REVIEW: {"approved": True, "issues": [], "non_blocking": []},
}


class NoWorkspace:
    """Worktrees that are a number each: implement raises it."""

    def __init__(self) -> None:
        self.trees: Counter[str] = Counter()

    async def directory(self, worktree: str) -> str:
        return worktree

    async def tree(self, worktree: str) -> str:
        return str(self.trees[worktree])

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        return Checkpoint(commit="c" * 40, tree="t" * 40, ref=f"refs/{task_slug}/{number}")

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        return ()

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        return ""

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        return ""

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        return ""


@dataclass
class NoOp:
    """An executor whose children are nothing, or a command started directly."""

    workspace: NoWorkspace
    child: tuple[str, ...] = ()
    ends: dict[TaskId, float] = field(default_factory=dict)
    turnarounds_s: list[float] = field(default_factory=list)
    """From a child's exit to the start of its task's next child."""

    async def prepare(self, work: WorkItem) -> bool:
        return True

    async def discard(self, work: WorkItem) -> None:
        return

    async def run(self, work: WorkItem, observe: Observe) -> Ending:
        if work.task_id in self.ends:
            self.turnarounds_s.append(time.perf_counter() - self.ends[work.task_id])
        if self.child:
            await trio.run_process(self.child)
        else:
            await trio.lowlevel.checkpoint()
        self.ends[work.task_id] = time.perf_counter()
        self.workspace.trees[work.cwd] += work.stage is Stage.IMPLEMENT
        return Ending(status=ResultStatus.SUCCESS, structured_output=OUTPUTS.get(work.stage))

    async def find(self, lease: Lease) -> Seen:
        return SeenNothing()

    async def attach(self, lease: Lease, observe: Observe) -> Ending:
        raise NotImplementedError("the bench lane has nothing to attach to")

    async def stop(self, lease: Lease) -> int:
        return 0


class CountingDisk(FileDisk):
    commits = 0

    async def append(self, data: bytes) -> int:
        self.commits += 1
        return await super().append(data)


class Unheard:
    """Projections are written; nobody is told anything."""

    def __init__(self, store: RunStore, journal: FileJournal) -> None:
        self._derived = Derived(store, journal)

    def changed(self) -> None:
        return

    def committed(self, state: RunState, entry: Entry) -> None:
        self._derived.committed(state, entry)

    def say(self, event: str, **values: object) -> None:
        return


def independent(tasks: int) -> list[KnownEvent]:
    """Tasks of six stages each: as many chains of six."""
    return [
        TaskAdded(task_id=TaskId(f"t{i}"), slug=f"t{i}", title=f"t{i}", body="b")
        for i in range(tasks)
    ]


@dataclass(frozen=True)
class Measured:
    stages: int
    wall_s: float
    cpu_s: float
    syncs: int
    """Of the journal."""
    journal_bytes: int
    turnarounds_s: Sequence[float]


def drive(root: Path, tasks: Sequence[KnownEvent], *, child: tuple[str, ...] = ()) -> Measured:
    """Make a run in ``root`` and drive it to its end."""
    # The gap between starts is a courtesy to clients' logins, and none of our overhead.
    settings = Settings(max_concurrent=CONCURRENT, keep_worktrees=True, start_gap_s=0.0)
    first = [RunCreated(settings=settings, project=Project(name="bench", root=str(root)))]
    store = RunRoot(root, pinned=False).create(
        "bench", f"bench{len(tasks)}{'c' if child else ''}", "day", first=first, now=time.time()
    )
    executor = NoOp(NoWorkspace(), child=child)
    return trio.run(_drive, store, tasks, executor)


async def _drive(store: RunStore, tasks: Sequence[KnownEvent], executor: NoOp) -> Measured:
    disk = CountingDisk(store.events_path)
    journal = FileJournal(disk, store.run_id)
    run = await LiveRun.open(journal)
    await run.commit(lambda _: tasks, now=time.time())
    sessions = iter(range(10**9))
    outside = Outside(
        executor=executor,
        workspace=executor.workspace,
        host=LocalHost(),
        account=FakeAccount(SharedAccount()),
        run_dir=str(store.path),
        new_session=lambda: SessionId(f"s{next(sessions)}"),
    )
    loop = RunLoop(run, outside, Invocation(wait=True), Unheard(store, journal))
    wall, cpu = time.perf_counter(), time.process_time()
    end = await loop.drive(None)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert end.exit_status == 0, end
    return Measured(
        stages=run.state.audit.recorded,
        wall_s=wall,
        cpu_s=cpu,
        syncs=disk.commits,
        journal_bytes=disk.size(),
        turnarounds_s=executor.turnarounds_s,
    )
