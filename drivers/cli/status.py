"""``status``: where the run is.  Writes nothing."""

import argparse

from drivers.cli.context import Context
from drivers.cli.show import status_text
from drivers.wiring_cli import driver_now, lease_is_alive
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore
from orchestrator.views.status import Status, status_of

HELP = """Show a run: its tasks, its driver, what it cost, and whether everything is accounted
for.  Looking changes nothing."""
JSON_WHEN_PIPED = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace, ctx: Context) -> int:
    del args
    store, state = ctx.read()
    show(ctx, store, state)
    return 0


def show(ctx: Context, store: RunStore, state: RunState) -> None:
    status = look(store, state, ctx.now())
    ctx.result(status, status_text(status))


def look(store: RunStore, state: RunState, now: float) -> Status:
    driver = driver_now(store, now)
    return status_of(state, driver, now=now, lease_alive=lease_is_alive(store, state))
