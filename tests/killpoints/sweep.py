"""One kill point: drive the batch to it, drive it again without, and judge."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.killpoints.batch import TWO, Batch, new_batch
from tests.killpoints.points import Point, Trace, strace, watching
from tests.killpoints.verdict import Verdict, judge

TRIES = 6
"""A point may lie beyond the end of one run and within that of another: calls vary by a few."""
MENDABLE_STATUSES = (0, 5)
"""A driver that meets an error goes on where it may, or says that the environment failed it."""


@dataclass(frozen=True)
class Outcome:
    points: tuple[Point, ...]
    """One, or one for each driver in a row."""
    hit: str | None
    """The kind of file of the last point; None where it did not fire."""
    statuses: tuple[int, ...]
    verdict: Verdict
    kept: Path | None = None
    """Its directory, where something is wrong."""


def census(path: Path) -> tuple[Trace, list[str], Batch]:
    """Drive a batch to its end with nobody in its way; what it did, and what was wrong.

    The second of two: the first may be the one that compiles the modules.
    """
    for name in ("first", "second"):
        with new_batch(path / name, tasks=TWO) as batch:
            log = path / name / "strace.log"
            status = batch.drive(*watching(log))
            trace, verdict = Trace.read(log), judge(batch, status)
    return trace, verdict.violations, batch


def try_often(path: str, points: tuple[Point, ...]) -> Outcome:
    """Until every point is come to; what is wrong ends it."""
    for number in range(TRIES):
        outcome = try_points(Path(f"{path}-{number}"), points)
        if outcome.hit is not None or outcome.verdict.violations:
            break
    return outcome


def try_points(path: Path, points: Sequence[Point]) -> Outcome:
    """End a driver at each point, one after the other; the one after them is left alone."""
    with new_batch(path, tasks=TWO) as batch:
        statuses: list[int] = []
        hits: list[str | None] = []
        wrong: list[str] = []
        for number, point in enumerate(points):
            log = path / f"strace-{number}.log"
            status = batch.drive(*strace(batch, log, point))
            hits.append(Trace.read(log).fired(point, status))
            statuses.append(status)
            if not point.ends_by_signal and status not in MENDABLE_STATUSES:
                wrong.append(f"the driver ended with {status} at {point}")
            if status == 0:  # it says that it has done all, in spite of the error
                wrong += judge(batch, status).violations
        statuses.append(batch.drive())
        verdict = judge(batch, statuses[-1])
        verdict.violations[:0] = wrong
    hit = None if None in hits else hits[-1]
    is_clean = not verdict.violations and hit is not None
    if is_clean:
        shutil.rmtree(path)
    return Outcome(
        points=tuple(points),
        hit=hit,
        statuses=tuple(statuses),
        verdict=verdict,
        kept=None if is_clean else path,
    )
