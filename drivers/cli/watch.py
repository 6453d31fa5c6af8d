"""``watch``: a run's status, kept up to date until the run has ended.

On a terminal it is drawn anew in place; elsewhere each event is a line.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator

from drivers.cli.activity import readable
from drivers.cli.context import Context
from drivers.cli.onlooker import Onlooker, Streams, moments, onlooker
from drivers.cli.status import look, text_of
from orchestrator.core.model import TaskId
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore
from orchestrator.views.timeline import activity as happening
from orchestrator.views.timeline import activity_line

HELP = """Follow a run until it has ended: on a terminal its status, kept up to date; otherwise a
line for each thing that happens.  --activity adds what the agents do.  --json prints the status
as a line whenever it has changed.  Ctrl-C ends watching, and nothing else."""

REDRAW_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--activity", action="store_true", help="show what the agents do, too")


def run(args: argparse.Namespace, ctx: Context) -> int:
    store = ctx.store()
    with onlooker(store) as looking:
        activity = Activity(store) if args.activity else None
        if ctx.wants_json:
            _print_changes(ctx, store, looking)
        elif sys.stdout is not None and sys.stdout.isatty():
            _draw(ctx, store, looking, activity)
        else:
            _print_events(looking, activity)
    return 0


class Activity:
    """What the children under way do, read from their raw output as it grows."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._streams: dict[TaskId, Streams] = {}
        self.last: dict[TaskId, str] = {}

    def new(self, state: RunState) -> Iterator[tuple[TaskId, str]]:
        for task_id in list(state.in_flight):
            slug = state.tasks[task_id].slug
            streams = self._streams.setdefault(task_id, Streams(self._store.stages_dir / slug))
            for file in streams.to_read():
                for line in file.new_lines():
                    for text in readable(line):
                        self.last[task_id] = text
                        yield task_id, text


def _print_changes(ctx: Context, store: RunStore, looking: Onlooker) -> None:
    shown: object = None
    for now in moments():
        state = looking.look()
        status = look(store, state, now)
        driver = status.driver
        key = (status.seq, driver.state, driver.last_state, driver.heartbeat_overdue)
        if key != shown:
            ctx.line(status, "")
            shown = key
        if status.terminal:
            return


def _print_events(looking: Onlooker, activity: Activity | None) -> None:
    for _ in moments():
        state = looking.look()
        for entry in looking.news:
            if (row := happening(entry)) is not None:
                print(activity_line(row))
        for task_id, text in activity.new(state) if activity is not None else ():
            print(f"          {task_id:<12}  {text}")
        sys.stdout.flush()
        if state.status.is_terminal:
            return


def _draw(ctx: Context, store: RunStore, looking: Onlooker, activity: Activity | None) -> None:
    drawn_at = 0.0
    for now in moments():
        state = looking.look()
        if not looking.news and now - drawn_at < REDRAW_S:
            continue
        drawn_at = now
        status = look(store, state, now)
        lines = text_of(ctx, status).splitlines()
        if activity is not None:
            for _ in activity.new(state):
                pass  # only the last of each is drawn
            doing = [f"{task}  {activity.last.get(task, '')}" for task in state.in_flight]
            lines += ["", *doing]
        _redraw(lines)
        if status.terminal:
            return


def _redraw(lines: list[str]) -> None:
    columns, rows = shutil.get_terminal_size()
    cut = [line[: columns - 1] for line in lines[: rows - 1]]
    print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in cut) + "\x1b[J", end="", flush=True)
