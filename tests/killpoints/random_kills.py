"""kill -9 of drivers and shims at random moments, with real processes and nothing in between.

One round is one batch: one to three times something is killed, then a last driver ends it.
"""

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from adapters.host import processes
from tests.killpoints.batch import LOOK_EVERY_S, Batch, Command, new_batch
from tests.killpoints.verdict import Verdict, judge

KILLS_MAX = 3
NEAR_SPAWN_S = 0.05
LIFE_S = 2.0
"""About what a batch takes: kills are spread over it."""


class Victim(StrEnum):
    DRIVER = "driver, any time"
    DRIVER_AT_SPAWN = "driver, within 50 ms of a spawn"
    SHIM = "shim"
    BOTH = "driver and shims at once"


@dataclass(frozen=True)
class Round:
    seed: int
    killed: Counter[Victim]
    verdict: Verdict
    kept: Path | None


def play(path: str, seed: int) -> Round:
    chance = random.Random(seed)
    killed: Counter[Victim] = Counter()
    with new_batch(Path(path)) as batch:
        status: int | None = None
        for _ in range(chance.randint(1, KILLS_MAX)):
            driver = batch.start()
            victim = chance.choice([*Victim, Victim.DRIVER_AT_SPAWN])
            killed[victim] += _kill(batch, driver, victim, chance)
            if victim is not Victim.SHIM:
                driver.kill()
            elif (status := driver.wait()) == 0:
                break
        if status != 0:
            status = batch.drive()
        verdict = judge(batch, status)
    is_clean = not verdict.violations
    if is_clean:
        shutil.rmtree(path)
    return Round(seed, killed, verdict, None if is_clean else Path(path))


def _kill(batch: Batch, driver: Command, victim: Victim, chance: random.Random) -> bool:
    """Wait for the moment, and kill.  False: it was over before."""
    after_s = chance.uniform(0, NEAR_SPAWN_S if victim is Victim.DRIVER_AT_SPAWN else LIFE_S)
    if victim is Victim.DRIVER_AT_SPAWN:
        skip = chance.randrange(4)
        if not _next_spawn(batch, driver, skip):
            return False
    until = time.monotonic() + after_s
    while time.monotonic() < until and driver.is_running:
        time.sleep(LOOK_EVERY_S)
    if not driver.is_running:
        return False
    if victim in (Victim.DRIVER_AT_SPAWN, Victim.DRIVER):
        driver.kill()
        return True
    shims = _wait_for_shims(batch, driver)
    if victim is Victim.BOTH:
        driver.kill()
    else:
        shims = shims[:1]
    return sum(processes.signal_if_same(shim, signal.SIGKILL) for shim in shims) > 0


def _next_spawn(batch: Batch, driver: Command, skip: int) -> bool:
    """Wait until ``skip`` + 1 more dispatches are under way: their lock files are there."""
    wanted = len(_locks(batch)) + skip + 1
    while driver.is_running:
        if len(_locks(batch)) >= wanted:
            return True
        time.sleep(LOOK_EVERY_S / 4)
    return False


def _locks(batch: Batch) -> list[Path]:
    return list(batch.store.stages_dir.glob("*/*.lock"))


def _wait_for_shims(batch: Batch, driver: Command) -> list[processes.Identity]:
    while driver.is_running:
        if found := list(_shims(batch)):
            return found
        time.sleep(LOOK_EVERY_S)
    return []


def _shims(batch: Batch) -> Iterator[processes.Identity]:
    """Also those that have not written who they are: known by what they were started with."""
    for identity in batch.processes():
        try:
            words = Path(f"/proc/{identity[0]}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"/shim_start.py") for word in words):
            yield identity
