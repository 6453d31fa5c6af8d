"""``set``: change a run's settings, as an event."""

import argparse

from drivers.cli.context import Context
from drivers.cli.init_run import shown
from orchestrator.core.errors import Usage
from orchestrator.core.options import TASK_KEYS, described
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
    if pairs:
        state, _ = ctx.commit(lambda s: change_settings(s, pairs, by=ctx.environment.user))
    else:
        _, state = ctx.read()
    settings = described(state.settings)
    ctx.result(settings, "\n".join(f"{key} = {shown(value)}" for key, value in settings.items()))
    return 0


def _set_task(name: str, pairs: dict[str, str], ctx: Context) -> int:
    if pairs:
        by = ctx.environment.user
        state, _ = ctx.commit(lambda s: change_task(s, name, pairs, by=by))
    else:
        _, state = ctx.read()
    task = find_task(state, name)
    own = {key: getattr(task, key) for key in TASK_KEYS}
    ctx.result(
        {"task": task.id, **own}, "\n".join(f"{key} = {shown(value)}" for key, value in own.items())
    )
    return 0
