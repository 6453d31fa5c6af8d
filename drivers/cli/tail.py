"""``tail``: what a task's agent does, from the raw output that is kept of it."""

import argparse
import sys
from collections import deque

from drivers.cli.activity import readable
from drivers.cli.context import Context
from drivers.cli.onlooker import GrowingFile, Streams, moments, onlooker
from drivers.wiring_cli import driver_now
from orchestrator.core import steer
from orchestrator.core.errors import Refused
from orchestrator.core.model import Stage, TaskId
from orchestrator.journal.store import RunStore

HELP = """Show what a task's agent or command did in its last dispatch, one line each; --follow
goes on, from stage to stage, until the task has ended.  --stage shows an earlier one.  --json
prints the output as it came."""

SHOWN_MAX = 1000
"""Of what is there already when it starts."""
DRIVER_LOOK_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task's id")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--follow", action="store_true", help="go on as it happens")
    how.add_argument(
        "--stage",
        choices=[stage.value for stage in Stage],
        help="all that is kept of this stage, instead of the last dispatch",
    )


def run(args: argparse.Namespace, ctx: Context) -> int:
    store = ctx.store()
    with onlooker(store) as looking:
        state = looking.look()
        task = steer.find_task(state, args.task)
        streams = Streams(store.stages_dir / task.slug)
        if args.stage is not None:
            return _print_stage(ctx, streams, task.id, args.stage)
        if not args.follow and not streams.paths():
            raise Refused(f"{task.id} has not been started: it is {task.status}")
        is_first = True
        drivers = Drivers(ctx)
        for now in moments():
            has_ended = steer.find_task(looking.look(), args.task).status.is_terminal
            if args.follow and not has_ended:
                drivers.look(store, now)
            for file in streams.to_read():
                _print(ctx, file, lines_max=SHOWN_MAX if is_first else None)
                is_first = False
            if has_ended or not args.follow:
                _say_what_came_before(ctx, streams, task.id)
                return 0
    return 0


def _print_stage(ctx: Context, streams: Streams, task: TaskId, stage: str) -> int:
    files = [path for path in streams.paths() if path.name.startswith(f"{stage}-attempt")]
    if not files:
        raise Refused(f"{task} has no {stage}{_stages_seen(streams)}")
    for path in files:
        _print(ctx, GrowingFile(path), lines_max=SHOWN_MAX)
    return 0


def _say_what_came_before(ctx: Context, streams: Streams, task: TaskId) -> None:
    if len(streams.paths()) > 1:
        command = ctx.command("tail", task, "--stage", "STAGE")
        ctx.note(f"there is more of it{_stages_seen(streams)}: {command}")


def _stages_seen(streams: Streams) -> str:
    seen = dict.fromkeys(path.name.partition("-attempt")[0] for path in streams.paths())
    return f"; there are {', '.join(seen)}" if seen else " yet"


class Drivers:
    """Says once, and again after a driver has lived, that nothing will come without one."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._look_at = 0.0
        self._was_alive = True

    def look(self, store: RunStore, now: float) -> None:
        if now < self._look_at:
            return
        self._look_at = now + DRIVER_LOOK_S
        is_alive = driver_now(store, now).alive
        if self._was_alive and not is_alive:
            self._ctx.note(f"no driver is live: {self._ctx.command('run-headless', '--wait')}")
        self._was_alive = is_alive


def _print(ctx: Context, file: GrowingFile, *, lines_max: int | None) -> None:
    if file.is_new and not ctx.wants_json:
        print(f"--- {file.path.name.removesuffix('.stream.jsonl')}", flush=True)
    lines = deque(file.new_lines(), maxlen=lines_max)
    for line in lines:
        if ctx.wants_json:
            print(line.decode("utf-8", "replace"))
        else:
            for each in readable(line):
                print(each)
    sys.stdout.flush()
