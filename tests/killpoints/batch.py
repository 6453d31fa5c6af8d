"""A small real batch, in a home and a repository of its own, that may be ended and driven again.

Two or three tasks of four stages, two at a time.  Invariant: only processes of this batch are
ever signalled, found by the HOME in their environment.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from adapters.host import processes
from orchestrator.journal.store import RunStore
from tests.e2e.cli_process import Home, make_home

RUN = "r1"
STAGES = ("intake", "implement", "deliver", "review")
MODEL_STAGES = ("implement", "review")
LIMIT = 2
TWO = """
[[task]]
id = "A"
title = "First"
[[task]]
id = "B"
title = "Second"
"""
"""29 journal events: what is done for hundreds of points."""
THREE = (
    TWO
    + """
[[task]]
id = "C"
title = "Third"
depends_on = ["A"]
"""
)
SCENARIO = """
schema = 1
[[call]]
task = "B"
stage = "implement"
duration_s = 2.5
"""
"""B's is slow: it is still under way when a driver comes back, and must be adopted."""

ENDS_WITHIN_S = 120.0
GONE_WITHIN_S = 10.0
LOOK_EVERY_S = 0.002


@dataclass(frozen=True)
class Batch:
    path: Path

    @cached_property
    def home(self) -> Home:
        return Home(self.path)

    @cached_property
    def store(self) -> RunStore:
        return RunStore(self.home.store(RUN))

    @property
    def agent_home(self) -> Path:
        return self.path / "home" / ".claude"

    def environment(self) -> dict[str, str]:
        return {**self.home.environment(), "TMPDIR": str(self.path / "tmp")}

    def start(self, *before: str, words: Sequence[str] = ("run-headless", "--wait")) -> "Command":
        """Start a command; ``before`` is what it is run under."""
        return self.start_module("orchestrator", "--run", RUN, *words, before=before)

    def start_module(self, *words: str, before: Sequence[str] = ()) -> "Command":
        with self.store.log_path.open("ab") as log:
            return Command(
                subprocess.Popen(
                    [*before, sys.executable, "-m", *words],
                    cwd=self.home.repository,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def drive(self, *before: str) -> int:
        """The driver's exit status; negative where a signal ended it."""
        return self.start(*before).wait()

    def processes(self) -> list[processes.Identity]:
        """All that carry this batch's home in their environment."""
        tag = f"HOME={self.path / 'home'}".encode()
        return processes.family([], tag)

    def all_gone(self) -> bool:
        """Wait, bounded, until none is left."""
        return until(lambda: not self.processes(), GONE_WITHIN_S)

    def end_all(self) -> None:
        """So that nothing outlives a trial, however it went."""

        def is_over() -> bool:
            left = self.processes()
            for identity in left:
                processes.signal_if_same(identity, signal.SIGKILL)
            return not left

        until(is_over, GONE_WITHIN_S)


@dataclass(frozen=True)
class Command:
    process: "subprocess.Popen[bytes]"

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, if it still runs; it is gone when this returns."""
        self.process.kill()
        self.process.wait()

    def is_over_within(self, bound_s: float) -> bool:
        return until(lambda: not self.is_running, bound_s)

    def wait(self) -> int:
        try:
            return self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return HUNG


HUNG = 999
"""In place of an exit status."""


@contextmanager
def new_batch(
    path: Path,
    *,
    tasks: str = THREE,
    scenario: str = SCENARIO,
    added: Sequence[str] = ("--all",),
    disk: Callable[[Path], AbstractContextManager[None]] | None = None,
) -> Iterator[Batch]:
    """``disk``: mounted where the runs are kept, for as long as the batch lives."""
    path.mkdir(parents=True)
    (path / "tmp").mkdir()
    home = make_home(path, tasks=tasks, scenario=scenario)
    runs = path / "home" / "Development" / "runs"
    runs.mkdir(parents=True)
    with disk(runs) if disk is not None else nullcontext():
        home.json("--run", RUN, "init-run", "--lane", "micro", "--max-concurrent", str(LIMIT))
        if disk is not None:  # a small one, on which nothing would be started otherwise
            home.json("--run", RUN, "set", "disk_free_min_mb", "0")
        home.json("--run", RUN, "add-task", *added)
        batch = Batch(path)
        try:
            yield batch
        finally:
            batch.end_all()


def until(is_so: Callable[[], bool], bound_s: float) -> bool:
    """Real processes are awaited: look until it is so, within a bound."""
    give_up_at = time.monotonic() + bound_s
    while not is_so():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def is_allowed_here() -> str:
    """Why strace cannot be used here; empty where it can."""
    try:
        done = subprocess.run(
            ["strace", "-f", "-b", "execve", "-o", os.devnull, "true"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except FileNotFoundError:
        return "strace is not installed"
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.strip()}"
