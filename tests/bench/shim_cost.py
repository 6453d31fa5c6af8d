"""What a shim costs: memory while it waits, and the time it adds to a child."""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import trio

from adapters.execution.executor import SupervisedExecutor
from adapters.execution.lanes import Command, Reader, StartAgain
from adapters.host.local import LocalHost
from adapters.host.watcher import FileWatcher
from orchestrator.core.model import (
    ENGINE_LANE,
    ChildExit,
    Ending,
    ProcessIdentity,
    ResultStatus,
    Stage,
    TaskId,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.settings import Settings
from orchestrator.ports.execution import Observation, Started

GOAL_PSS_MB, GOAL_MS = 7.0, 25.0
RUNS = 25


class Program:
    """A lane that runs one command, whatever the work item says."""

    def __init__(self, *argv: str) -> None:
        self._argv = argv

    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        env = {"PATH": os.environ["PATH"]}
        return Command(argv=self._argv, env=env, cwd="/", stdin=prompt_file)

    def reader(self, work: WorkItem) -> Reader:
        return Deaf()

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002 - the Lane port names it so
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending | StartAgain:
        return Ending(status=ResultStatus.SUCCESS, exit=exit)


class Deaf:
    def feed(self, data: bytes) -> tuple[Observation, ...]:
        return ()

    def close(self) -> None:
        return


def report(directory: Path) -> Iterator[str]:
    limit_ms = trio.run(_direct_ms)
    yield f"limit: /bin/true through trio.run_process: {limit_ms:.1f} ms"
    took_ms = trio.run(_through_shim_ms, directory / "shim")
    added_ms = took_ms - limit_ms
    yield (
        f"/bin/true prepared, through a shim, exit record synced: {took_ms:.1f} ms "
        f"(+{added_ms:.1f}; goal {GOAL_MS:.0f})"
    )
    pss_mb = trio.run(_waiting_shim_pss_mb, directory / "waiting")
    yield f"a waiting shim: {pss_mb:.1f} MB PSS (goal {GOAL_PSS_MB:.0f})"


async def _direct_ms() -> float:
    took = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        await trio.run_process(["/bin/true"])
        took.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(took)


async def _through_shim_ms(directory: Path) -> float:
    executor, took = _executor(directory, Program("/bin/true")), []
    for number in range(RUNS):
        work = _work(number)
        begin = time.perf_counter()
        await executor.prepare(work)
        await executor.run(work, lambda _: None)
        took.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(took)


async def _waiting_shim_pss_mb(directory: Path) -> float:
    executor, work = _executor(directory, Program("sleep", "30")), _work(0)
    told: list[ProcessIdentity] = []
    running = trio.Event()

    def observe(observation: Observation) -> None:
        if isinstance(observation, Started):
            told.append(observation.shim)
            running.set()

    await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, observe)
        await running.wait()
        pss_mb = psutil.Process(told[0].pid).memory_full_info().pss / 1e6
        psutil.Process(told[0].pid).terminate()
    return pss_mb


def _executor(directory: Path, lane: Program) -> SupervisedExecutor:
    directory.mkdir(parents=True)
    return SupervisedExecutor(
        stem_of=lambda slug, stage, attempt, dispatch: directory / f"d{dispatch}",
        slug_of=lambda task_id: task_id,
        lanes={ENGINE_LANE: lane},
        settings=Settings,
        host=LocalHost(),
        watcher=FileWatcher(),
    )


def _work(number: int) -> WorkItem:
    work = WorkItem(
        id=WorkItemId("bench"),
        content_hash="",
        run_id="bench",
        task_id=TaskId("bench"),
        stage=Stage.TEST,
        attempt=1,
        dispatch=number,
        lane=ENGINE_LANE,
        model="",
        effort="",
        prompt="",
        output_schema=None,
        session_id=None,
        resume=False,
        cwd="/",
        timeout_s=60.0,
        max_budget_usd=None,
        env={},
        created_at=0.0,
    )
    return msgspec.structs.replace(work, id=WorkItemId(f"bench/{number}"))
