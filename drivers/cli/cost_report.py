"""``cost-report``: where the money of a run went, and what of it was of use."""

import argparse
import sys
from collections.abc import Iterable

from drivers.cli.context import Context
from orchestrator.core.errors import Usage
from orchestrator.core.words import nearest
from orchestrator.journal.read import read_entries
from orchestrator.views.cost_books import books_of
from orchestrator.views.cost_report import BY, cost_report, report_csv, report_text

HELP = """Tell what the run has cost, by task, stage, model, effort or waste: `retry` is what a
verdict threw back, `discarded` what ended with its task or before a requeue, `waiting` what came to
no verdict.  Reads only; also while the run goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="WHAT,…",
        help=f"any of {', '.join(BY)}; several make one row each (default: stage)",
    )
    parser.add_argument("--csv", action="store_true", help="as CSV, without the total")


def run(args: argparse.Namespace, ctx: Context) -> int:
    by = _groups(args.by) or ["stage"]
    store = ctx.store()
    books = books_of(read_entries(store.events_path))
    report = cost_report(books, by, run_id=store.run_id, now=ctx.now())
    if args.csv:
        sys.stdout.write(report_csv(report))
        return 0
    ctx.result(report, report_text(report))
    return 0


def _groups(told: Iterable[str]) -> list[str]:
    names = [name.strip() for each in told for name in each.split(",") if name.strip()]
    for name in names:
        if name not in BY:
            raise Usage(f"--by {name} is not known{nearest(name, BY)}: say {', '.join(BY)}")
    return list(dict.fromkeys(names))
