"""``retrospective``: what became of the run, against what was foreseen.  Writes nothing."""

import argparse

from drivers.cli.context import Context

HELP = """Look back on a run: its forecast beside what came of it, where its time and its money
went, what failed and why, its slowest tasks and its critical path.  From the journal alone."""
JSON_WHEN_PIPED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace, ctx: Context) -> int:
    del args
    from orchestrator.journal.read import read_entries
    from orchestrator.views.cost_books import books_of
    from orchestrator.views.retrospective import retrospective_of
    from orchestrator.views.retrospective_text import retrospective_text
    from orchestrator.views.time_books import times_of

    path, now = ctx.store().events_path, ctx.now()
    times, books = times_of(read_entries(path), now), books_of(read_entries(path))
    seen = retrospective_of(times, books, now=now)
    ctx.result(seen, retrospective_text(seen))
    return 0
