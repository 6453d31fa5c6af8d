"""Many seeds at once, over several processes: for a night, and for the long test."""

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.story import Course, simulate

CHUNK = 20


@dataclass(frozen=True)
class Failure:
    seed: int
    what: str


def run_all(
    seeds: range, tasks: int | None, *, jobs: int
) -> Iterator[tuple[list[Course], list[Failure]]]:
    """In pieces, as they are done."""
    chunks = ((seeds[at : at + CHUNK], tasks) for at in range(0, len(seeds), CHUNK))
    if jobs == 1:
        yield from map(_run_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_run_chunk, chunks)


def _run_chunk(chunk: tuple[range, int | None]) -> tuple[list[Course], list[Failure]]:
    seeds, tasks = chunk
    courses: list[Course] = []
    failures: list[Failure] = []
    for seed in seeds:
        try:
            courses.append(simulate(seed, tasks))
        except Exception as fault:  # noqa: BLE001 - it is reported with its seed
            failures.append(
                Failure(seed, f"seed {seed}: {type(fault).__name__}: {fault}{_again(seed, tasks)}")
            )
    return courses, failures


def _again(seed: int, tasks: int | None) -> str:
    more = f" --tasks {tasks}" if tasks else ""
    return f"\n  again: scripts/simulate --seed {seed}{more}"
