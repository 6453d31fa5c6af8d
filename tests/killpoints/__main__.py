"""``scripts/killpoints``: see ``--help``."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from tests.killpoints import full_disk, report
from tests.killpoints.batch import is_allowed_here
from tests.killpoints.full_disk import Siege, besiege
from tests.killpoints.points import JOURNAL, Fault, Point, catalogue
from tests.killpoints.random_kills import Round, play
from tests.killpoints.sweep import Outcome, census, try_often

ABOUT = """End the real driver at every write and every sync of a batch, by SIGKILL, EIO, ENOSPC and
short writes under strace; drive the batch again; and hold what is left against what is promised.
Exit status 1 where anything is wrong; the directory of what went wrong is kept and named."""
EPILOG = """With --random or --disk, only those are done; --whole does everything that the project
promises to have tested: all points, 200 rounds, 12 full disks."""
PROGRESS_EVERY_S = 15.0
WHOLE_ROUNDS = 200
WHOLE_DISKS = 12

Trial = TypeVar("Trial", Outcome, Round, Siege)


def main() -> int:
    args = _parser().parse_args()
    root = Path(tempfile.mkdtemp(prefix="killpoints-")).resolve()
    say(f"working in {root}")
    wrong: list[str] = []
    if args.whole or not (args.random or args.disk):
        wrong += sweep(root, args.jobs, args.every, args.only)
    if args.whole or args.random:
        count = args.random or WHOLE_ROUNDS
        rounds = [
            partial(play, str(root / f"random-{seed}"), seed)
            for seed in range(args.seed, args.seed + count)
        ]
        wrong += run_all(rounds, args.jobs, report.of_rounds)
    if args.whole or args.disk:
        wrong += sieges(root, args.disk or WHOLE_DISKS, args)
    for line in wrong:
        print(line)
    if not wrong:
        shutil.rmtree(root)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/killpoints", description=ABOUT, epilog=EPILOG, allow_abbrev=False
    )
    add = parser.add_argument
    add("--jobs", type=int, default=2, metavar="N", help="batches at once (default: 2)")
    add("--every", type=int, default=1, metavar="N", help=EVERY_HELP)
    add(
        "--only",
        default="",
        metavar="TEXT",
        help="only points whose name holds TEXT ('then': recovery)",
    )
    add("--random", type=int, default=0, metavar="N", help="N batches killed at random moments")
    add("--disk", type=int, default=0, metavar="N", help="N batches on a full disk of 1 MB (root)")
    add("--disk-s", type=float, default=20.0, metavar="S", help="how long each (default: 20)")
    add("--seed", type=int, default=0, metavar="N", help="of the first batch (default: 0)")
    add("--whole", action="store_true", help="all of it")
    return parser


EVERY_HELP = "of the errors outside the journal, every Nth; kills and the journal are whole"


def sweep(root: Path, jobs: int, every: int, only: str) -> list[str]:
    if why := is_allowed_here():
        return [f"the kill points were left out: {why}"]
    trace, wrong, batch = census(root / "census")
    if wrong:
        return [f"the batch goes wrong with nobody in its way: {wrong}"]
    points = catalogue(batch, trace, every=every)
    trials = [(point,) for point in points] + list(recoveries())
    chosen = [
        partial(try_often, str(root / f"{number:04d}"), trial)
        for number, trial in enumerate(trials)
        if only in ", then ".join(map(str, trial))
    ]
    if not chosen:
        return [f"no point's name holds {only!r}: they read like {', '.join(map(str, points[:3]))}"]
    return run_all(chosen, jobs, report.of_points)


def recoveries() -> Iterator[tuple[Point, ...]]:
    """A driver killed in the middle of a batch, and its successor at each step of taking it up."""
    for number in (4, 9):
        first = Point("fdatasync", number, Fault.KILL, JOURNAL)
        for call, path, most in (
            ("write", JOURNAL, 4),
            ("fdatasync", JOURNAL, 4),
            ("fsync", "driver.jsonl", 1),
            ("write", "", 8),
            ("rename", "", 1),
            ("clone3", "", 4),
        ):
            for count in range(1, most + 1):
                yield first, Point(call, count, Fault.KILL, path)


def sieges(root: Path, count: int, args: argparse.Namespace) -> list[str]:
    if why := full_disk.is_possible_here():
        return [f"the full disk was left out: {why}"]
    seeds = range(args.seed, args.seed + count)
    trials = [partial(besiege, str(root / f"disk-{seed}"), seed, args.disk_s) for seed in seeds]
    return run_all(trials, args.jobs, report.of_sieges)


def run_all(
    trials: Sequence[Callable[[], Trial]],
    jobs: int,
    tell: Callable[[list[Trial]], Iterator[str]],
) -> list[str]:
    """Each in a process of its own; what is wrong, a line each."""
    say(f"{len(trials)} trials, {jobs} at once")
    began = last_said = time.monotonic()
    done: list[Trial] = []
    wrong: list[str] = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(trial) for trial in trials]
        try:
            for future in as_completed(pending):
                done.append(future.result())
                for line in report.trouble(done[-1]):
                    wrong.append(line)
                    say(line)
                now = time.monotonic()
                if now - last_said > PROGRESS_EVERY_S:
                    last_said = now
                    rate = len(done) / (now - began)
                    say(f"{len(done)} of {len(trials)}, {len(wrong)} wrong, {rate:.2f} a second")
        finally:
            for future in pending:  # Ctrl-C, or a trial that is itself broken: begin no more
                future.cancel()
    say(f"{len(done)} trials took {time.monotonic() - began:.0f} s")
    for line in tell(done):
        print(line, flush=True)
    return wrong


def say(text: str) -> None:
    print(f"killpoints: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
