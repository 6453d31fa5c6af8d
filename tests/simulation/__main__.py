"""``scripts/simulate``: one seed to look at, or many for a night.

scripts/simulate --seed N [--tasks T] [--journal]      replay one, and tell its course
scripts/simulate --seeds N [--from S] [--jobs J] [--tasks T] [--minutes M]

Without --tasks the seed says how many: mostly up to 3, sometimes 6, seldom 30.
"""

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.simulation.night import Failure, run_all
from tests.simulation.story import FAULTS, begin, perform


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="replay this one and tell what happened")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--tasks", type=int, help="of each run, as 6 or 30; default: a mix")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="begin nothing more after so long")
    parser.add_argument("--journal", action="store_true", help="with --seed: print the journal")
    args = parser.parse_args()
    if args.seed is not None:
        return replay(args.seed, args.tasks, journal=args.journal)
    return run_many(range(args.first, args.first + args.seeds), args)


def replay(seed: int, tasks: int | None, *, journal: bool) -> int:
    story = begin(seed, tasks)
    try:
        perform(story)
    except Exception:  # noqa: BLE001 - whatever it was, it is told
        traceback.print_exc()
        failed = True
    else:
        failed = False
    if journal:
        sys.stdout.buffer.write(story.journal())
        sys.stdout.flush()
    print(f"seed {seed}: {story.tasks} tasks, {story.drivers} drivers", file=sys.stderr)
    print(f"planned: {', '.join(story.faults) or 'nothing'}", file=sys.stderr)
    print(f"struck: {_listed(story.machine.struck)}", file=sys.stderr)
    for life in story.agents.lives:
        name = life.dispatch.stem.split("/stages/")[1]
        end = "finished" if life.finished else "was ended"
        print(f"  {life.began_at:10.3f} s  {name}: {life.conduct}, {end}", file=sys.stderr)
    return int(failed)


def run_many(seeds: range, args: argparse.Namespace) -> int:
    began = time.monotonic()
    done = dispatches = drivers = 0
    struck: Counter[str] = Counter()
    sizes: dict[int, list[float]] = {}
    failures: list[Failure] = []
    for courses, failed in run_all(seeds, args.tasks, jobs=args.jobs):
        done += len(courses) + len(failed)
        dispatches += sum(course.dispatches for course in courses)
        drivers += sum(course.drivers for course in courses)
        for course in courses:
            struck += course.struck
            sizes.setdefault(course.tasks, []).append(course.took_s)
        for failure in failed:
            failures.append(failure)
            print(failure.what, flush=True)
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
    took_s = time.monotonic() - began
    for fault in FAULTS:
        print(f"{struck[fault]:9}  {fault}")
    for tasks, each_s in sorted(sizes.items()):
        per_s = len(each_s) / sum(each_s)
        print(f"{tasks:3} tasks: {len(each_s):6} seeds, {per_s:6.1f} a second of a processor")
    print(
        f"{done} seeds in {took_s:.0f} s ({done / took_s:.1f} a second): {drivers} drivers, "
        f"{dispatches} dispatches, {len(failures)} violations"
    )
    return int(bool(failures))


def _listed(struck: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(struck.items()) if count)


if __name__ == "__main__":
    sys.exit(main())
