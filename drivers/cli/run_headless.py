"""``run-headless``: drive the run to its end, here or detached."""

import argparse
import os
import sys
from typing import TextIO

from drivers.cli import utilization
from drivers.cli.context import Context
from orchestrator.journal.store import RunStore

HELP = """Drive the run to its end: one claude child per ready stage, several at once.  The same
command goes on after any stop or crash; nothing that ran is run again.  Exit status: 0 completed,
3 stopped before the end, 4 another driver is live, 6 finished with failed tasks."""
JSON_WHEN_PIPED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait", action="store_true", help="sleep through cooldowns and full usage windows"
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="leave this session and return once the driver has begun; implies --wait",
    )
    utilization.add_arguments(parser)
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="take dispatches over that another host has started: first make sure it is down",
    )


def run(args: argparse.Namespace, ctx: Context) -> int:
    store = ctx.store()
    if args.detach:
        return _detach(args, ctx, store)
    from drivers.cli import failure
    from drivers.cli.status import look, show, without_agent_text
    from drivers.headless.main import run_headless
    from drivers.headless.outside import Invocation
    from orchestrator.journal.snapshot import read_state

    end = run_headless(
        store,
        Invocation(
            wait=args.wait,
            max_concurrent=args.max_concurrent,
            utilization=args.util,
            take_over=args.take_over,
            argv=tuple(sys.argv),
        ),
    )
    if not _is_log_of(store, sys.stdout):
        with failure.last_word(ctx.note):
            show(ctx, without_agent_text(look(store, read_state(store), ctx.now())))
    if end.signal is not None:
        failure.end_by(end.signal)
    return end.exit_status


def _is_log_of(store: RunStore, stream: TextIO | None) -> bool:
    """driver.log is one line per decision: a status in it would hide the last of them."""
    try:
        return stream is not None and os.path.samestat(
            os.fstat(stream.fileno()), store.log_path.stat()
        )
    except OSError:
        return False


def _detach(args: argparse.Namespace, ctx: Context, store: RunStore) -> int:
    from drivers.headless.detach import launch

    launched = launch(store, _arguments(args, ctx, store))
    watch, stop = ctx.command("watch"), ctx.command("stop", "--drain")
    is_over = launched.ended is not None
    ctx.result(
        {
            "run": store.run_id,
            "pid": launched.pid,
            "exit_status": launched.ended,
            "log": store.log_path,
            "monitor": watch,
            "stop": stop,
            "notice_of_end": False,
        },
        "\n".join(
            [
                f"driver {launched.pid} "
                + (f"has ended already, status {launched.ended}" if is_over else "is at work"),
                f"log      {store.log_path}",
                "No notice of its end will come. To watch it (it returns when the driver ends), and"
                " to stop it:",
                watch,
                stop,
            ]
        ),
    )
    return launched.ended or 0


def _arguments(args: argparse.Namespace, ctx: Context, store: RunStore) -> list[str]:
    """The new driver's command line: ``pgrep -f`` finds it by run-headless and the run's id."""
    words = ["--run", store.run_id]
    if ctx.root is not None:
        words += ["--root", str(ctx.root)]
    words += ["run-headless", "--wait"]
    if args.max_concurrent is not None:
        words += ["--max-concurrent", str(args.max_concurrent)]
    if args.util is not None:
        words += ["--util", f"{args.util * 100:g}"]
    if args.take_over:
        words += ["--take-over"]
    return words
