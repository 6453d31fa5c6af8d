"""What the supervision tests share: an executor over scripts, and a driver that can be killed.

Run as a program it is a factory of drivers: for each line of JSON on its standard input it forks
one that prepares and runs that work item, and says the pid.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from adapters.execution.executor import SupervisedExecutor
from adapters.execution.lanes import Command, Lane, Reader, StartAgain
from adapters.execution.stems import Stem
from adapters.host import processes
from adapters.host.local import LocalHost
from adapters.host.slots import Slots
from adapters.host.watcher import FileWatcher
from orchestrator.core.model import (
    ENGINE_LANE,
    Cause,
    ChildExit,
    Ending,
    ResultStatus,
    Stage,
    TaskId,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.settings import Settings
from orchestrator.core.state import Lease
from orchestrator.ports.execution import Observation, ResultSeen

QUICK = Settings(interrupt_wait_s=0.3, terminate_wait_s=0.3, result_linger_s=0.3)
RESULT = b"RESULT"
BOUND_S = 15.0
"""No wait in these tests is longer."""


class ScriptReader:
    def __init__(self) -> None:
        self.bytes_read = 0
        self.has_result = False
        self.is_closed = False
        self._end = b""

    def feed(self, data: bytes) -> tuple[Observation, ...]:
        self.bytes_read += len(data)
        had, window = self.has_result, self._end + data
        self.has_result = had or RESULT in window
        self._end = window[-len(RESULT) :]
        return (ResultSeen(),) if self.has_result and not had else ()

    def close(self) -> None:
        self.is_closed = True


class ScriptLane:
    """Runs ``inputs["argv"]``; a result is the word RESULT."""

    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        argv = work.inputs["argv_again"] if again else work.inputs["argv"]
        env = {"PATH": os.environ["PATH"], **work.env}
        return Command(tuple(argv), env, work.cwd, prompt_file)

    def reader(self, work: WorkItem) -> Reader:
        return ScriptReader()

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending | StartAgain:
        assert isinstance(reader, ScriptReader)
        assert reader.is_closed
        if "the other way" in stderr_tail:
            return StartAgain("it said: the other way")
        evidence = {"bytes": reader.bytes_read, "stderr": stderr_tail, "reason": exit.reason}
        if reader.has_result and exit.reason in ("exited", "shim_lost"):
            return Ending(status=ResultStatus.SUCCESS, exit=exit, evidence=evidence)
        cause = Cause.TIMEOUT if exit.reason == "deadline" else Cause.CRASH
        return Ending(
            status=ResultStatus.INTERRUPTED, cause=cause, error="no result", evidence=evidence
        )


class Bench:
    """A directory of dispatches, and drivers for it."""

    def __init__(self, root: Path, settings: Settings = QUICK, lane: Lane | None = None) -> None:
        self.root = root
        self.settings = settings
        self.lane = lane or ScriptLane()

    def executor(self, lane_name: str = ENGINE_LANE) -> SupervisedExecutor:
        """A new driver's."""
        return SupervisedExecutor(
            stem_of=lambda slug, stage, attempt, dispatch: (
                self.root / "stages" / slug / f"{stage}-attempt{attempt}.d{dispatch}"
            ),
            slug_of=lambda task_id: task_id.lower(),
            lanes={lane_name: self.lane},
            settings=lambda: self.settings,
            host=LocalHost(),
            watcher=FileWatcher(),
            slots=self.slots(),
        )

    def slots(self) -> Slots:
        """Another driver's view of the places for children."""
        return Slots(self.root / "slots")

    def stem(self, work: WorkItem) -> Stem:
        return Stem.first(self.root / "stages" / "t1" / f"test-attempt1.d{work.dispatch}")

    def python(self, source: str, *arguments: str, **fields: Any) -> WorkItem:
        return self.work([sys.executable, "-I", "-S", "-c", source, *arguments], **fields)

    def shell(self, source: str, **fields: Any) -> WorkItem:
        return self.work(["sh", "-c", source], **fields)

    def work(self, argv: list[str], **fields: Any) -> WorkItem:
        dispatch = fields.setdefault("dispatch", 1)
        given: dict[str, Any] = {
            "id": WorkItemId(f"T1/test/a1/d{dispatch}"),
            "content_hash": f"hash-{dispatch}",
            "run_id": "r1",
            "task_id": TaskId("T1"),
            "stage": Stage.TEST,
            "attempt": 1,
            "lane": ENGINE_LANE,
            "model": "",
            "effort": "",
            "prompt": "the prompt\n",
            "output_schema": None,
            "session_id": None,
            "resume": False,
            "cwd": str(self.root),
            "timeout_s": 60.0,
            "max_budget_usd": None,
            "env": {},
            "created_at": 0.0,
            "inputs": {"argv": argv},
        }
        return WorkItem(**(given | fields))

    def lease(self, work: WorkItem) -> Lease:
        return Lease(
            task_id=work.task_id,
            work_item_id=work.id,
            content_hash=work.content_hash,
            stage=work.stage,
            attempt=work.attempt,
            dispatch=work.dispatch,
            lane=work.lane,
            host=LocalHost().identity(),
            timeout_s=work.timeout_s,
            dispatched_at=0.0,
            session_id=None,
            resume=False,
            model="",
            effort="",
            tree_before="",
            worktree=str(self.root),
            branch="",
            max_budget_usd=None,
        )

    async def run(self, work: WorkItem) -> Ending:
        executor = self.executor(work.lane)
        assert await executor.prepare(work)
        with trio.fail_after(BOUND_S):
            return await executor.run(work, _ignore)

    async def attach(self, work: WorkItem) -> Ending:
        with trio.fail_after(BOUND_S):
            return await self.executor(work.lane).attach(self.lease(work), _ignore)

    def tagged(self, work: WorkItem) -> list[int]:
        """Every process of a dispatch that lives, its shim included."""
        marker = b"ORCHESTRATOR_STEM=" + os.fsencode(self.stem(work).tag)
        return [pid for pid, _ in processes.family([], marker)]


def until(what: Callable[[], object], *, bound_s: float = BOUND_S) -> None:
    """Wait for something that another process does, and that gives no event here."""
    give_up_at = time.monotonic() + bound_s
    while not what():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        time.sleep(0.002)


async def until_there(what: Callable[[], object], *, bound_s: float = BOUND_S) -> None:
    with trio.fail_after(bound_s):
        while not what():  # noqa: ASYNC110 - another process, no event
            await trio.sleep(0.002)


class Factory:
    """Drivers in processes of their own, to be killed."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.supervision", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def drive(self, work: WorkItem) -> int:
        """Returns the driver's pid, once it has prepared the dispatch."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(work) + b"\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()))

    def kill(self, pid: int) -> None:
        """SIGKILL; it is gone when this returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.kill(pid, signal.SIGKILL)
        self._process.stdin.write(b"null\n")
        self._process.stdin.flush()
        assert json.loads(self._process.stdout.readline()) == pid

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(BOUND_S)


@contextmanager
def factory(root: Path) -> Iterator[Factory]:
    made = Factory(root)
    try:
        yield made
    finally:
        made.close()


def _ignore(observation: Observation) -> None:
    pass


def _serve(root: Path) -> None:
    for line in sys.stdin.buffer:
        if line == b"null\n":
            print(os.wait()[0], flush=True)
            continue
        work = msgspec.json.decode(line, type=WorkItem)
        pid = os.fork()
        if pid == 0:
            os.close(0)
            trio.run(_drive, Bench(root), work)
            os._exit(0)


async def _drive(bench: Bench, work: WorkItem) -> None:
    executor = bench.executor()
    await executor.prepare(work)
    print(os.getpid(), flush=True)
    await executor.run(work, _ignore)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
