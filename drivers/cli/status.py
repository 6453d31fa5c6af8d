"""``status``: where the run is.  Writes nothing."""

import argparse
import shutil
import sys

import msgspec

from drivers.cli.context import Context
from drivers.wiring_cli import driver_now, hear_of_account, lease_is_alive
from orchestrator.core.model import TaskStatus
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.status import Status, TaskRow, status_of
from orchestrator.views.text import WIDTH, status_text

HELP = """Show a run: its tasks, its driver, what it cost, and whether everything is accounted
for.  Looking changes nothing."""
JSON_WHEN_PIPED = True

WIDTH_IN_A_PIPE = 10_000
"""Nobody's terminal wraps it, and whoever reads it wants the whole reason."""
WORDED = frozenset({TaskStatus.HELD, TaskStatus.FAILED})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace, ctx: Context) -> int:
    del args
    store, state = ctx.read()
    hear_of_account(state, ctx.environment.state_dir, ctx.now())
    show(ctx, look(store, state, ctx.now()))
    return 0


def look(
    store: RunStore, state: RunState, now: float, driver: DriverStatus | None = None
) -> Status:
    """``driver``: where it has been looked at already."""
    driver = driver or driver_now(store, now)
    return status_of(state, driver, now=now, lease_alive=lease_is_alive(store, state))


def show(ctx: Context, status: Status) -> None:
    ctx.result(status, "" if ctx.wants_json else text_of(ctx, status))


def text_of(ctx: Context, status: Status, *, is_watched: bool = False) -> str:
    is_seen = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((WIDTH, 40)).columns if is_seen else WIDTH_IN_A_PIPE
    return status_text(status, width=width, program=ctx.program(), is_watched=is_watched)


def without_agent_text(status: Status) -> Status:
    """What a launching session may be told: why a model's stage failed or holds its task can be
    an agent's words, which are for those who ask with ``status``.  Its cause is ours."""
    tasks = tuple(
        msgspec.structs.replace(task, reason=_cause(task)) if _is_worded(task) else task
        for task in status.tasks
    )
    return msgspec.structs.replace(status, tasks=tasks)


def _is_worded(task: TaskRow) -> bool:
    return task.state in WORDED and not task.stage.is_deterministic


def _cause(task: TaskRow) -> str | None:
    return task.cause and f"{task.stage}: {task.cause}; `status` says more"
