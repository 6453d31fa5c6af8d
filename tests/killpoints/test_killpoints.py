"""A sample of what ``scripts/killpoints`` does whole: at most 90 s of it."""

import itertools
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.killpoints import full_disk
from tests.killpoints.full_disk import besiege
from tests.killpoints.points import JOURNAL, Fault, Point
from tests.killpoints.random_kills import Victim, play
from tests.killpoints.required import needs_strace
from tests.killpoints.sweep import try_often

pytestmark = pytest.mark.slow

POINTS_WITHIN_S = 45.0
ROUNDS_WITHIN_S = 90.0
KILLS_MIN = 8
DISK_S = 8.0
SAMPLE: tuple[tuple[Point, ...], ...] = (
    (Point("fdatasync", 3, Fault.KILL, JOURNAL),),
    (Point("write", 7, Fault.KILL, JOURNAL),),
    (Point("fdatasync", 6, Fault.EIO, JOURNAL),),
    (Point("fdatasync", 5, Fault.KILL, JOURNAL), Point("write", 1, Fault.KILL, JOURNAL)),
    (Point("rename", 2, Fault.ENOSPC),),
    (Point("write", 9, Fault.SHORT, JOURNAL),),
    (Point("clone3", 5, Fault.KILL),),
    (Point("fdatasync", 4, Fault.ROLLBACK, JOURNAL),),
    (Point("write", 30, Fault.KILL),),
    (Point("fdatasync", 9, Fault.KILL, JOURNAL), Point("fdatasync", 2, Fault.KILL, JOURNAL)),
    (Point("write", 8, Fault.ENOSPC, JOURNAL),),
    (Point("write", 22, Fault.EIO),),
    (Point("fdatasync", 12, Fault.KILL, JOURNAL),),
)
"""The ones that matter most come first: a slow machine may not come to those after ALWAYS."""
ALWAYS = 6


def test_a_driver_that_is_ended_at_a_write_or_sync_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    needs_strace()
    give_up_at = time.monotonic() + POINTS_WITHIN_S
    for number, points in enumerate(SAMPLE):
        outcome = try_often(str(tmp_path / str(number)), points)
        assert outcome.verdict.violations == [], outcome
        assert outcome.hit is not None, f"{points} did not fire: {outcome}"
        if number >= ALWAYS and time.monotonic() > give_up_at:
            break


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    """Until everybody who can be was killed, and not by a plan alone."""
    give_up_at = time.monotonic() + ROUNDS_WITHIN_S
    killed: Counter[Victim] = Counter()
    for seed in itertools.count():
        outcome = play(str(tmp_path / str(seed)), seed)
        assert outcome.verdict.violations == [], outcome
        killed += outcome.killed
        if all(killed[victim] for victim in Victim) and killed.total() >= KILLS_MIN:
            break
        assert time.monotonic() < give_up_at, f"only {killed}"


def test_two_writers_on_a_full_disk_leave_whole_commits_decided_on_the_present(
    tmp_path: Path,
) -> None:
    if why := full_disk.is_possible_here():
        pytest.skip(why)
    siege = besiege(str(tmp_path / "batch"), 1, DISK_S)
    assert siege.violations == [], siege
    assert siege.dispatched > 0
