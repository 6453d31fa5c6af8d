"""``scripts/simulate``: one seed to look at, or many for a night.

scripts/simulate --seed N [--tasks T] [--journal]      replay one, and tell its course
scripts/simulate --seeds N [--from S] [--jobs J] [--tasks T] [--minutes M]
"""

import argparse
import sys
import time
import traceback

from tests.simulation.night import Failure, run_all
from tests.simulation.story import begin, perform


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, help="replay this one and tell what happened")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--tasks", type=int, help="of each run; otherwise the seed says")
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
    print(f"faults: {', '.join(story.faults) or 'none'}", file=sys.stderr)
    for life in story.agents.lives:
        name = life.dispatch.stem.split("/stages/")[1]
        end = "finished" if life.finished else "was ended"
        print(f"  {life.began_at:10.3f} s  {name}: {life.conduct}, {end}", file=sys.stderr)
    return int(failed)


def run_many(seeds: range, args: argparse.Namespace) -> int:
    began = time.monotonic()
    done = dispatches = drivers = 0
    failures: list[Failure] = []
    for courses, failed in run_all(seeds, args.tasks, jobs=args.jobs):
        done += len(courses) + len(failed)
        dispatches += sum(course.dispatches for course in courses)
        drivers += sum(course.drivers for course in courses)
        for failure in failed:
            failures.append(failure)
            print(failure.what, flush=True)
        if args.minutes and time.monotonic() - began > 60 * args.minutes:
            break
    took_s = time.monotonic() - began
    print(
        f"{done} seeds in {took_s:.0f} s ({done / took_s:.1f} a second): {drivers} drivers, "
        f"{dispatches} dispatches, {len(failures)} violations"
    )
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
