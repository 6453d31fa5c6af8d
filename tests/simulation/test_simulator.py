"""Runs from seeds: whatever happens to the driver and its machine, the promises hold.

A failure names its seed and the line that replays it: scripts/simulate --seed N.
"""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.night import run_all
from tests.simulation.story import CUT_SHORT_MAX, simulate

SAMPLE = 80
ALL = 5000
SIX = range(100_000, 100_100)
THIRTY = range(200_000, 200_020)


def test_a_sample_of_runs_keeps_every_promise() -> None:
    courses = [simulate(seed) for seed in range(SAMPLE)]
    # They really were in trouble, of every kind, and what was left open was taken up every way.
    hows = Counter(how for course in courses for how in course.hows)
    assert set(hows) == {"adopted", "harvested", "resumed", "redispatched"}
    assert sum(course.drivers for course in courses) > 2 * SAMPLE
    assert max(course.drivers for course in courses) > CUT_SHORT_MAX
    struck = {fault.split(":")[0].split(",")[0] for course in courses for fault in course.faults}
    assert len(struck) > 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "tasks"), [(range(SAMPLE, ALL), None), (SIX, 6), (THIRTY, 30)], ids=str
)
def test_many_runs_keep_every_promise(seeds: range, tasks: int | None) -> None:
    """On all processors: a course takes as long as its dispatches, some 5 ms each."""
    failures = [
        failure.what
        for _, failed in run_all(seeds, tasks, jobs=os.cpu_count() or 1)
        for failure in failed
    ]
    assert not failures, "\n".join(failures)


def test_a_seed_has_one_course() -> None:
    """Also in another process, whose hashes of strings differ: needs trio's private switch."""
    seeds = range(8)
    program = (
        "from tests.simulation.story import simulate; import hashlib; "
        f"print([hashlib.sha256(simulate(s).journal).hexdigest() for s in {list(seeds)}])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    ]
    assert told[0] == told[1]
    assert [simulate(seed).journal for seed in seeds] == [simulate(seed).journal for seed in seeds]
