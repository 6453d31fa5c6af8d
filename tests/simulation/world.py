"""A small world for the run loop alone: children that outlive the driver, under a mock clock.

For tests that tell what the loop does with scripted results; story.py has the machine beneath.

A World is what a kill of the driver leaves: the journal's file, the children that run,
the exits that were recorded, the trees of the worktrees.  SimExecutor, SimWorkspace and
SimHost are one driver's view of it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import trio

from orchestrator.core.events import Entry
from orchestrator.core.model import (
    CallCost,
    Cause,
    Checkpoint,
    Ending,
    HostIdentity,
    ProcessIdentity,
    ResultStatus,
    Stage,
    WorkItem,
)
from orchestrator.core.resources import Resources
from orchestrator.core.state import Lease, RunState
from orchestrator.ports.execution import (
    Observe,
    Seen,
    SeenAlive,
    SeenEnded,
    SeenNothing,
    Started,
)
from tests.fakes.account import SharedAccount
from tests.fakes.disk import MemoryFile

EPOCH = 1_795_000_000.0
HOST = HostIdentity(hostname="sim", machine_id="m", boot_id="b")

SCOPE_OUTPUT: dict[str, object] = {"feasible": True, "plan": ["do it"], "risks": []}
IMPLEMENT_OUTPUT: dict[str, object] = {"summary": "done", "files_changed": ["a"], "notes": ""}
REVIEW_OUTPUT: dict[str, object] = {"approved": True, "issues": [], "non_blocking": []}


@dataclass
class Child:
    work_item_id: str
    task_id: str
    worktree: str
    stage: Stage
    ends_at: float
    ending: Ending
    identity: ProcessIdentity
    cost_usd: float = 0.0
    moved: trio.Event = field(default_factory=trio.Event)
    """Its end is not when it was to be."""

    def end_now(self, ending: Ending) -> None:
        """It was told to stop."""
        self.ends_at = trio.current_time()
        self.ending = ending
        self.cost_usd = 0.0
        self.moved.set()

    def is_running(self) -> bool:
        return trio.current_time() < self.ends_at


Script = Callable[[random.Random, "World", Stage, str, int], Ending]


@dataclass
class World:
    rng: random.Random
    script: Script
    file: MemoryFile = field(default_factory=MemoryFile)
    account: SharedAccount = field(default_factory=SharedAccount)
    children: dict[str, Child] = field(default_factory=dict)
    trees: dict[str, int] = field(default_factory=dict)
    starved_until: float = 0.0
    """On trio's clock: until then no thread and no process can be started for a worktree."""
    starts: dict[str, int] = field(default_factory=dict)
    running_max: int = 0
    pids: int = 1000
    stage_s_max: float = 600.0
    resources: Resources = field(default_factory=Resources)
    """What the host has left, the children of other drivers aside."""
    places: int | None = None
    """Children that the host may have; None: not counted."""
    places_seen: int | None = None
    """What a look says of them, where that is not so."""
    looks: list[float] = field(default_factory=list)
    """When a driver looked at the host."""

    def running(self) -> list[Child]:
        return [child for child in self.children.values() if child.is_running()]

    def spawn(self, key: str, *, task_id: str, stage: Stage, worktree: str, attempt: int) -> Child:
        assert key not in self.children, f"{key} is started twice"
        for child in self.running():
            assert child.worktree != worktree, f"{key} runs beside {child.work_item_id}"
        self.starts[key] = self.starts.get(key, 0) + 1
        self.pids += 1
        ending = self.script(self.rng, self, stage, task_id, attempt)
        if stage is Stage.IMPLEMENT and ending.cause is not Cause.NO_CHANGE:
            self.trees[worktree] = self.trees.get(worktree, 0) + 1
        child = Child(
            work_item_id=key,
            task_id=task_id,
            worktree=worktree,
            stage=stage,
            ends_at=trio.current_time() + self.rng.uniform(0.1, self.stage_s_max),
            ending=ending,
            identity=ProcessIdentity(pid=self.pids, start_time=self.pids),
            cost_usd=ending.cost.cost_usd if ending.cost else 0.0,
        )
        self.children[key] = child
        self.running_max = max(self.running_max, len(self.running()))
        return child

    async def until_running(self, children: int) -> None:
        while len(self.running()) < children:  # noqa: ASYNC110 - on a mock clock
            await trio.sleep(0.1)


class SimHost:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return EPOCH + trio.current_time()

    def identity(self) -> HostIdentity:
        return HOST

    def this_process(self) -> ProcessIdentity:
        return ProcessIdentity(pid=1, start_time=1)

    def resources(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources:
        world = self._world
        world.looks.append(trio.current_time())
        places = world.places if world.places_seen is None else world.places_seen
        is_counted = places is not None and children_max
        free = max(0, (places or 0) - len(world.running())) if is_counted else None
        return msgspec.structs.replace(world.resources, host_children_free=free)


class SimWorkspace:
    def __init__(self, world: World) -> None:
        self._world = world

    async def directory(self, worktree: str) -> str:
        await trio.lowlevel.checkpoint()
        return worktree

    async def tree(self, worktree: str) -> str:
        await trio.sleep(0.015)
        if trio.current_time() < self._world.starved_until:
            raise RuntimeError("can't start new thread")
        return f"tree-{self._world.trees.get(worktree, 0)}"

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        tree = await self.tree(worktree)
        return Checkpoint(commit=f"c-{tree}", tree=tree, ref=f"refs/{task_slug}/{number}")

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        await trio.lowlevel.checkpoint()
        return ()

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        await trio.lowlevel.checkpoint()
        return "diff"

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        await trio.lowlevel.checkpoint()
        return "ref"

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        await trio.lowlevel.checkpoint()
        return ""


class SimExecutor:
    """One driver's hands.  Its locks pass to the shims it starts, and die with it otherwise."""

    def __init__(self, world: World, worktree_of: Callable[[str], str]) -> None:
        self._world = world
        self._worktree_of = worktree_of

    async def prepare(self, work: WorkItem) -> bool:
        await trio.sleep(0.001)
        places = self._world.places
        return places is None or len(self._world.running()) < places

    async def discard(self, work: WorkItem) -> None:
        await trio.lowlevel.checkpoint()

    async def run(self, work: WorkItem, observe: Observe) -> Ending:
        child = self._world.spawn(
            work.id,
            task_id=work.task_id,
            stage=work.stage,
            worktree=self._worktree_of(work.task_id),
            attempt=work.attempt,
        )
        observe(
            Started(
                shim=child.identity, child=child.identity, started_at=EPOCH + trio.current_time()
            )
        )
        return await self._follow(child)

    async def find(self, lease: Lease) -> Seen:
        await trio.lowlevel.checkpoint()
        child = self._world.children.get(lease.work_item_id)
        if child is None:
            return SeenNothing()
        return SeenAlive() if child.is_running() else SeenEnded()

    async def attach(self, lease: Lease, observe: Observe) -> Ending:
        return await self._follow(self._world.children[lease.work_item_id])

    async def stop(self, lease: Lease) -> int:
        child = self._world.children.get(lease.work_item_id)
        if child is not None and child.is_running():
            child.end_now(interrupted())
        await trio.lowlevel.checkpoint()
        return 0

    async def _follow(self, child: Child) -> Ending:
        with trio.move_on_at(child.ends_at):
            await child.moved.wait()
        return child.ending


def success(stage: Stage, *, cost_usd: float = 0.0) -> Ending:
    outputs: dict[Stage, dict[str, object]] = {
        Stage.INTAKE: {"start_commit": "s", "branch": "b", "worktree": "w"},
        Stage.SCOPE: SCOPE_OUTPUT,
        Stage.IMPLEMENT: IMPLEMENT_OUTPUT,
        Stage.REVIEW: REVIEW_OUTPUT,
    }
    cost = None if stage.is_deterministic else CallCost(cost_usd=cost_usd)
    return Ending(status=ResultStatus.SUCCESS, structured_output=outputs.get(stage), cost=cost)


def failure(cause: Cause, error: str = "", *, resets_at: float | None = None) -> Ending:
    return Ending(
        status=ResultStatus.FAILURE, cause=cause, error=error or cause.value, resets_at=resets_at
    )


def interrupted() -> Ending:
    return Ending(status=ResultStatus.INTERRUPTED, cause=Cause.INTERRUPTED, error="stopped")


class Quiet:
    """An Audience that keeps what it is told."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.said: list[tuple[str, dict[str, object]]] = []

    def changed(self) -> None:
        pass

    def committed(self, state: RunState, entry: Entry) -> None:
        self.entries.append(entry)

    def say(self, event: str, **values: object) -> None:
        self.said.append((event, values))
