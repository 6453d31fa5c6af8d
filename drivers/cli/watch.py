"""``watch``: a run's status, kept up to date until there is nothing more to see.

On a terminal it is drawn anew in place; elsewhere each event is a line.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator

from drivers.cli.context import Context
from drivers.cli.doings import Doings
from drivers.cli.frames import Frame, exit_status, frames
from drivers.cli.onlooker import onlooker
from drivers.cli.status import WIDTH_IN_A_PIPE, look, text_of
from orchestrator.core.events import Entry, StageRecorded
from orchestrator.core.model import TaskId
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore
from orchestrator.views.advice import to_go_on
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.moments import told_at
from orchestrator.views.text import advice_lines, driver_words
from orchestrator.views.timeline import activity as happening, activity_line

HELP = """Follow a run.  On a terminal: its status, kept up to date until the run has ended.
Elsewhere a line for each thing that happens, until the run has ended or nobody drives it any
more; then why, and the command that goes on.  --json prints the status as a line whenever it has
changed.  --activity adds what the agents do.  Exit status: as of run-headless, 0 completed, 3
stopped before the end, 6 finished with failed tasks.  Ctrl-C ends watching, and nothing else."""

REDRAW_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--activity", action="store_true", help="show what the agents do, too")


def run(args: argparse.Namespace, ctx: Context) -> int:
    store = ctx.store()
    is_drawn = not ctx.wants_json and sys.stdout is not None and sys.stdout.isatty()
    doings = Doings(store) if args.activity else None
    with onlooker(store) as looking:
        seen = frames(store, looking, until_run_ends=is_drawn)
        if ctx.wants_json:
            last = _print_changes(ctx, store, seen)
        elif is_drawn:
            last = _draw(ctx, store, seen, looking.news, doings)
        else:
            last = _print_events(ctx, store, seen, looking.news, doings)
    return exit_status(last)


def _print_changes(ctx: Context, store: RunStore, seen: Iterator[Frame]) -> RunState:
    shown: object = None
    for frame in seen:
        driver = frame.driver
        key = (frame.state.seq, driver.state, driver.last_state, driver.heartbeat_overdue)
        if key != shown:
            ctx.line(look(store, frame.state, frame.now, driver), "")
            shown = key
    return frame.state


def _print_events(
    ctx: Context,
    store: RunStore,
    seen: Iterator[Frame],
    news: list[Entry],
    doings: Doings | None,
) -> RunState:
    """``news``: of the frame under way."""
    before = DriverStatus(state="live", alive=True)
    is_first = True
    for frame in seen:
        for entry in news:
            if doings is not None and isinstance(entry.event, StageRecorded) and not is_first:
                _print_doings(doings.rest_of(frame.state, entry.event))
            if (row := happening(entry)) is not None:
                print(activity_line(row))
        if doings is not None:
            _print_doings(doings.under_way(frame.state))
        if is_first or _is_news(frame.driver, before):
            _print_driver(ctx, store, frame)
        before, is_first = frame.driver, False
        sys.stdout.flush()
    return frame.state


def _is_news(driver: DriverStatus, before: DriverStatus) -> bool:
    """Of a driver that begins, the journal tells."""
    overdue = driver.heartbeat_overdue and not before.heartbeat_overdue
    return overdue or (driver.state != before.state and driver.state != "live")


def _print_driver(ctx: Context, store: RunStore, frame: Frame) -> None:
    """That it has ended, is dead, or is not heard; then what to do about it."""
    driver, state = frame.driver, frame.state
    if driver.alive and not driver.heartbeat_overdue:
        return
    if driver.state == "none" and state.status.is_terminal:
        return
    print(f"{told_at(frame.now)}  {'-':<12}  driver {driver_words(driver)}")
    steps = to_go_on(look(store, state, frame.now, driver), program=ctx.program())
    for line in advice_lines(steps, WIDTH_IN_A_PIPE)[1:]:
        print(line)


def _print_doings(told: Iterator[tuple[TaskId, str]]) -> None:
    for task_id, text in told:
        print(f"          {task_id:<12}  {text}")


def _draw(
    ctx: Context,
    store: RunStore,
    seen: Iterator[Frame],
    news: list[Entry],
    doings: Doings | None,
) -> RunState:
    drawn_at = 0.0
    for frame in seen:
        state = frame.state
        if not (news or frame.is_last) and frame.now - drawn_at < REDRAW_S:
            continue
        drawn_at = frame.now
        status = look(store, state, frame.now, frame.driver)
        lines = text_of(ctx, status, is_watched=True).splitlines()
        if doings is not None:
            for _ in doings.under_way(state):
                pass  # only the last of each is drawn
            doing = [f"{task}  {doings.last.get(task, '')}" for task in state.in_flight]
            lines += ["", *doing]
        _redraw(lines)
    return state


def _redraw(lines: list[str]) -> None:
    columns, rows = shutil.get_terminal_size()
    cut = [line[: columns - 1] for line in lines[: rows - 1]]
    print("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in cut) + "\x1b[J", end="", flush=True)
