"""``forecast``: what the run is likely to come to.  Writes nothing."""

import argparse
from typing import TYPE_CHECKING

from drivers.cli import utilization
from drivers.cli.context import Context

if TYPE_CHECKING:
    from orchestrator.core.state import RunState
    from orchestrator.journal.store import RunStore

HELP = """Live the run through many times under a virtual clock, with what this project's runs
have taught, and say when it ends, what it costs, which tasks may not be completed, and what one
slot or 20 USD more would change."""
JSON_WHEN_PIPED = True

SAMPLES_MAX = 10_000
WHAT_IF_SHARE = 4
"""The changes are read from one in so many of the futures."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples",
        type=_samples,
        metavar="N",
        help="futures to read it from (default: 200, fewer for large runs)",
    )
    utilization.add_arguments(parser)


def run(args: argparse.Namespace, ctx: Context) -> int:
    from orchestrator.core.forecast import foresee, futures_that_fit, what_if
    from orchestrator.core.futures import Drive
    from orchestrator.views.forecast import forecast_of, forecast_of_ended, forecast_text

    store, state = ctx.read()
    now = ctx.now()
    if state.finalized is not None:
        forecast = forecast_of_ended(state, now)
    else:
        _learn(ctx, store, state, now)
        drive = Drive(
            max_concurrent=args.max_concurrent or state.settings.max_concurrent,
            utilization=args.util,
        )
        count = args.samples or futures_that_fit(state)
        seen = foresee(state, now=now, drive=drive, count=count)
        fewer = max(1, count // WHAT_IF_SHARE)
        forecast = forecast_of(state, seen, what_if(state, seen, drive=drive, count=fewer))
    ctx.result(forecast, forecast_text(forecast))
    return 0


def _learn(ctx: Context, store: "RunStore", state: "RunState", now: float) -> None:
    """What the driver will load when it begins: here into the copy that was read."""
    from orchestrator.core.events import Entry, HistoryLoaded
    from orchestrator.core.fold import fold
    from orchestrator.journal.past import is_news, read_past

    past = read_past(store, state.project)
    for unread in past.unread:
        ctx.note(f"history of another run was not read: {unread}")
    if past.samples and is_news(past, state.history):
        loaded = HistoryLoaded(samples=past.samples, runs=past.runs)
        fold(state, Entry(seq=state.seq + 1, ts=now, run_id=state.run_id, event=loaded))


def _samples(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= SAMPLES_MAX:
        raise argparse.ArgumentTypeError(f"is a whole number from 1 to {SAMPLES_MAX}, not {text!r}")
    return int(text)
