"""Runs from seeds: whatever happens to the driver and its machine, the promises hold.

A failure names its seed and the line that replays it: scripts/simulate --seed N.
"""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.night import run_all
from tests.simulation.story import CUT_SHORT_MAX, FAULTS, simulate

SAMPLE = 60
ALL = 5000


def test_a_sample_of_runs_keeps_every_promise() -> None:
    courses = [simulate(seed) for seed in range(SAMPLE)]
    # They really were in trouble, of every kind, and what was left open was taken up every way.
    hows = Counter(how for course in courses for how in course.hows)
    assert set(hows) == {"adopted", "harvested", "resumed", "redispatched"}
    assert sum(course.drivers for course in courses) > 2 * SAMPLE
    assert max(course.drivers for course in courses) > CUT_SHORT_MAX
    struck = {fault for course in courses for fault in course.struck.keys() & set(FAULTS)}
    assert len(struck) > 50


@pytest.mark.slow
def test_many_runs_of_every_size_keep_every_promise_whatever_fault_strikes() -> None:
    """On all processors: a course takes as long as its dispatches, some 3 ms each."""
    failures: list[str] = []
    struck: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for courses, failed in run_all(range(ALL), None, jobs=os.cpu_count() or 1):
        failures += [failure.what for failure in failed]
        for course in courses:
            struck += course.struck
            sizes[course.tasks] += 1
    assert not failures, "\n".join(failures)
    assert [fault for fault in FAULTS if not struck[fault]] == []
    assert sizes.keys() >= {6, 30}


def test_a_seed_has_one_course() -> None:
    """Also in another process, whose hashes of strings differ: needs trio's private switch."""
    seeds = range(5)
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
