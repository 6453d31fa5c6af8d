"""``set``: change a run's settings, as an event."""

import argparse
from collections.abc import Sequence
from typing import Any

from drivers.cli.context import Context
from drivers.cli.init_run import shown
from orchestrator.core.errors import Usage
from orchestrator.core.events import KnownEvent
from orchestrator.core.options import TASK_KEYS, described, key_of
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.steer import change_settings, change_task, find_task

HELP = """Change settings of a run, at any time; a live driver takes them up at once.  Without
any, show them.  `lane` applies to tasks that are added later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", metavar="REF", help="only of this task: budget_usd")
    parser.add_argument("pairs", nargs="*", metavar="KEY VALUE", help="a setting and its value")


def run(args: argparse.Namespace, ctx: Context) -> int:
    keys, values = args.pairs[::2], args.pairs[1::2]
    if len(keys) != len(values):
        raise Usage(f"{keys[-1]} has no value: say KEY VALUE, any number of times")
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise Usage(f"{twice[0]} is set twice")
    pairs = dict(zip(keys, values, strict=True))
    if args.task is not None:
        return _set_task(args.task, pairs, ctx)
    if not pairs:
        settings = described(ctx.read()[1].settings)
        ctx.result(settings, "\n".join(f"{key} = {shown(each)}" for key, each in settings.items()))
        return 0
    before: dict[str, Any] = {}

    def change(state: RunState) -> Sequence[KnownEvent]:
        before.update(described(state.settings))
        return change_settings(state, pairs, by=ctx.environment.user)

    state, _ = ctx.commit(change)
    settings = described(state.settings)
    named = {key_of(written): None for written in pairs}
    ctx.result(settings, "\n".join(_changed(key, before[key], settings[key]) for key in named))
    return 0


def _changed(key: str, before: object, after: object) -> str:
    if before == after:
        return f"{key} = {shown(after)}, as before"
    return f"{key} = {shown(after)}, was {shown(before)}"


def _set_task(name: str, pairs: dict[str, str], ctx: Context) -> int:
    before: dict[str, Any] = {}

    def change(state: RunState) -> Sequence[KnownEvent]:
        before.update(_own(find_task(state, name)))
        return change_task(state, name, pairs, by=ctx.environment.user)

    state = ctx.commit(change)[0] if pairs else ctx.read()[1]
    task = find_task(state, name)
    own = _own(task)
    ctx.result(
        {"task": task.id, **own},
        "\n".join(
            _changed(key, before[key], value) if pairs else f"{key} = {shown(value)}"
            for key, value in own.items()
        ),
    )
    return 0


def _own(task: TaskState) -> dict[str, Any]:
    return {key: getattr(task, key) for key in TASK_KEYS}
