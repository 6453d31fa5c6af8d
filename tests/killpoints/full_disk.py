"""Two writers on a full disk of 1 MB: the driver and people's commands, both killed at random.

Invariant looked for: what the journal holds is whole commits, each decided on the state that it
follows: nothing is dispatched while the journal says paused, nor above the limit that it
names; a command that said done is in it once, one that said it failed is not.
"""

import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from orchestrator.core.errors import ExitStatus, OrchestratorError
from orchestrator.core.events import (
    Entry,
    RunPaused,
    SettingsChanged,
    StageDispatched,
    TaskAdded,
    TaskRequeued,
)
from orchestrator.core.fold import fold, replay
from orchestrator.core.state import RunState
from orchestrator.journal.read import read_entries
from tests.e2e.cli_process import lines
from tests.killpoints.batch import LIMIT, Batch, Command, new_batch
from tests.killpoints.verdict import overlaps, spans

DISK = "1m"
FREE_BYTES = (0, 0, 4096, 12288)
"""What the ballast leaves of the disk while it lies there."""
WRITERS = 2
Work = Callable[[Batch, random.Random, float], None]
"""What goes on until a moment, on the monotonic clock."""
LIMITS = (1, 2, 3)
EXTRA = ("C", "D", "E")
TASKS = "".join(f'[[task]]\nid = "{name}"\ntitle = "Task {name}"\n' for name in ("A", "B", *EXTRA))
SCENARIO = "schema = 1\nduration_s = 0.1\n"
COMMAND_LIFE_S = 0.8
DRIVER_LIFE_S = 2.5
HASTY_LIFE_S = 5.0
KILLED_SHARE = 0.3
OF_COMMANDS = (SettingsChanged, RunPaused, TaskRequeued, TaskAdded)


@dataclass
class Said:
    """A command, what identifies its event, and how it ended."""

    token: str
    status: int
    is_certain: bool
    """Whether success means an event: to pause what is paused changes nothing."""


@dataclass
class Siege:
    """What one trial came to."""

    seed: int
    commands: Counter[str] = field(default_factory=Counter)
    drivers: Counter[str] = field(default_factory=Counter)
    dispatched: int = 0
    violations: list[str] = field(default_factory=list)
    kept: Path | None = None


def is_possible_here() -> str:
    """Why no small disk can be mounted here; empty where it can."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            with small_disk(Path(directory)):
                return ""
        except (OSError, subprocess.CalledProcessError) as error:
            return f"a tmpfs cannot be mounted here: {error}"


@contextmanager
def small_disk(at: Path) -> Iterator[None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(at)]
    subprocess.run(mount, check=True, capture_output=True, timeout=30)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True, capture_output=True, timeout=30)


def besiege(path: str, seed: int, seconds: float) -> Siege:
    siege = Siege(seed)
    chance = random.Random(seed)
    kept = Path(path)
    added = [word for name in ("A", "B") for word in ("--task", name)]
    with new_batch(kept, tasks=TASKS, scenario=SCENARIO, added=added, disk=small_disk) as batch:
        said: list[Said] = []
        until_s = time.monotonic() + seconds
        works: list[Work] = [partial(_drive, siege), _press]
        works += [partial(_command, number, said) for number in range(WRITERS)]
        works.append(partial(_haste, kept / "haste"))
        threads = [
            threading.Thread(target=work, args=(batch, random.Random(chance.random()), until_s))
            for work in works
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _relieve(batch)
        # What a person would do once there is space again.
        _say(batch, "unpause")
        _say(batch, "set", "max_concurrent", str(LIMIT))
        status = batch.drive()
        said += _said_in_haste(kept / "haste")
        for one in said:
            siege.commands[_word(one.status)] += 1
        _judge(batch, siege, said, status)
        if siege.violations:
            shutil.copytree(batch.store.path, kept / "run")  # the disk goes
    if siege.violations:
        siege.kept = kept
    else:
        shutil.rmtree(kept)
    return siege


# -- what goes on at once ---------------------------------------------------------------------


def _drive(siege: Siege, batch: Batch, chance: random.Random, until_s: float) -> None:
    while time.monotonic() < until_s:
        siege.drivers[_word(_run_for(batch.start(), chance, DRIVER_LIFE_S))] += 1


def _press(batch: Batch, chance: random.Random, until_s: float) -> None:
    """Fill the disk but for a few pages, give it back, and again."""
    while time.monotonic() < until_s:
        _fill(batch, chance.choice(FREE_BYTES))
        time.sleep(chance.uniform(0.2, 1.5))
        _relieve(batch)
        time.sleep(chance.uniform(0.05, 0.5))


def _fill(batch: Batch, free_bytes: int) -> None:
    with _ballast(batch).open("ab", buffering=0) as ballast:
        try:
            while (left := _free_bytes(batch) - free_bytes) > 0:
                ballast.write(bytes(min(left, 65536)))
        except OSError:
            return  # somebody else was quicker to take the last of it


def _relieve(batch: Batch) -> None:
    _ballast(batch).unlink(missing_ok=True)


def _ballast(batch: Batch) -> Path:
    return batch.store.path.parent / ".ballast"


def _free_bytes(batch: Batch) -> int:
    disk = os.statvfs(batch.store.path)
    return disk.f_bavail * disk.f_frsize


def _command(
    writer: int, said: list[Said], batch: Batch, chance: random.Random, until_s: float
) -> None:
    number = 0
    while time.monotonic() < until_s:
        number += 1
        token = f"{writer + 1}{number:03d}7"
        words = _some_command(chance, token)
        status = _run_for(batch.start(words=words), chance, COMMAND_LIFE_S)
        said.append(Said(token, status, is_certain=words[0] != "pause"))
        if words[0] == "pause":
            _say(batch, "unpause")


def _haste(path: Path, batch: Batch, chance: random.Random, until_s: float) -> None:
    path.touch()
    number = 0
    while time.monotonic() < until_s:
        number += 1
        words = ("tests.killpoints.hasty", str(chance.randrange(1 << 30)), f"h{number}", str(path))
        hasty = batch.start_module(*words)
        hasty.is_over_within(chance.uniform(0.5, HASTY_LIFE_S))
        hasty.kill()


def _said_in_haste(path: Path) -> Iterator[Said]:
    for line in path.read_text("ascii").splitlines():
        token, status = line.split()
        yield Said(token, int(status), is_certain=False)


def _some_command(chance: random.Random, token: str) -> Sequence[str]:
    """Each that commits carries its token."""
    limit = str(chance.choice(LIMITS))
    makers: tuple[Callable[[], Sequence[str]], ...] = (
        lambda: ("set", "max_concurrent", limit, "drain_s", f"1.{token}"),
        lambda: ("set", "max_concurrent", limit, "drain_s", f"1.{token}"),
        lambda: ("pause", "--reason", f"token-{token}"),
        lambda: ("requeue", chance.choice(("A", *EXTRA)), "--reason", f"token-{token}"),
        lambda: ("add-task", "--task", chance.choice(EXTRA), "--model", f"token-{token}"),
    )
    return chance.choice(makers)()


def _run_for(command: Command, chance: random.Random, life_s: float) -> int:
    """Its exit status; for a share of them, SIGKILL after a while."""
    if chance.random() < KILLED_SHARE:
        command.is_over_within(chance.uniform(0, life_s))
        command.kill()
    return command.wait()


def _say(batch: Batch, *words: str) -> int:
    return batch.start(words=words).wait()


def _word(status: int) -> str:
    return "killed" if status < 0 else f"exit {status}"


# -- the judgement ----------------------------------------------------------------------------


def _judge(batch: Batch, siege: Siege, said: Sequence[Said], status: int) -> None:
    hold = siege.violations.append
    if status not in (ExitStatus.DONE, ExitStatus.TASKS_FAILED):
        hold(f"with space again, the last driver ended with {status}")
    if not batch.all_gone():
        hold("processes are left")
    try:
        entries = list(read_entries(batch.store.events_path))
        replay(entries)
    except OrchestratorError as error:
        hold(f"the journal does not replay: {error}")
        return
    recorded = [str(entry.event) for entry in entries if isinstance(entry.event, OF_COMMANDS)]
    for one in said:
        times = sum(one.token in event for event in recorded)
        if times > 1 or (one.status == ExitStatus.DONE and one.is_certain and times == 0):
            hold(f"command {one.token} is in the journal {times} times")
        if one.status > 0 and times > 0:
            hold(f"command {one.token} said that it failed, and is in the journal")
    if [line["seq"] for line in lines(batch.store.events_path)] != [e.seq for e in entries]:
        hold("a commit is there in part")
    siege.dispatched = sum(isinstance(e.event, StageDispatched) for e in entries)
    siege.violations += [*_stale(entries), *overlaps(spans(batch, entries))]
    said_by_log = batch.store.log_path.read_text("utf-8", "replace")
    if "Traceback" in said_by_log or "unexpected" in said_by_log:
        hold("something unexpected was said in driver.log")


def _stale(entries: Sequence[Entry]) -> Iterator[str]:
    """Dispatches that the state before them did not allow."""
    state: RunState | None = None
    for entry in entries:
        if isinstance(entry.event, StageDispatched) and state is not None:
            if state.paused is not None:
                yield f"event {entry.seq}: dispatched while paused ({state.paused})"
            if len(state.in_flight) >= state.settings.max_concurrent:
                yield f"event {entry.seq}: dispatched above the limit"
        state = fold(state, entry)
