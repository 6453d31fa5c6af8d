"""``set``: change a run's settings, or one task's, as an event that can be taken back."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drivers.cli.context import Context
from drivers.cli.init_run import shown
from orchestrator.core.errors import Usage
from orchestrator.core.events import KnownEvent
from orchestrator.core.options import described, flat, key_of, own_of
from orchestrator.core.state import RunState
from orchestrator.core.steer import change_settings, change_task, find_task
from orchestrator.core.undo import undo
from orchestrator.views.changes import changes_text, history

HELP = """Change settings of a run, at any time; a live driver takes them up at once.  Without
any, show them.  `default` puts one back.  `lane` applies to tasks that are added later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task",
        metavar="REF",
        help="only of this task: priority, model, effort, budget_usd, paused",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; it is kept")
    parser.add_argument(
        "--undo",
        nargs="?",
        const="1",
        metavar="N",
        help="take back what your last N commands changed of settings and tasks (default: 1)",
    )
    parser.add_argument(
        "--history", action="store_true", help="who changed what, when, from what, and why"
    )
    parser.add_argument("pairs", nargs="*", metavar="KEY VALUE", help="a setting and its value")


def run(args: argparse.Namespace, ctx: Context) -> int:
    keys, values = args.pairs[::2], args.pairs[1::2]
    if sum((bool(keys or args.task), args.undo is not None, args.history)) > 1:
        raise Usage("say one of them: KEY VALUE, --undo, or --history")
    if len(keys) != len(values):
        raise Usage(f"{keys[-1]} has no value: say KEY VALUE, any number of times")
    meant = [key.replace("-", "_") if args.task is not None else key_of(key) for key in keys]
    if twice := [key for key in meant if meant.count(key) > 1]:
        raise Usage(f"{twice[0]} is set twice")
    pairs = dict(zip(meant, values, strict=True))
    by = ctx.environment.user
    if args.history:
        rows = history(ctx.read()[1])
        ctx.result(rows, changes_text(rows))
    elif args.undo is not None:
        _take_back(_count(args.undo), args.reason, ctx)
    elif args.task is not None:
        _set(
            ctx,
            pairs,
            values=lambda state: own_of(find_task(state, args.task)),
            change=lambda s: change_task(s, args.task, pairs, by=by, reason=args.reason),
            about=lambda state: {
                "task": find_task(state, args.task).id,
                **own_of(find_task(state, args.task)),
            },
        )
    else:
        _set(
            ctx,
            pairs,
            values=lambda state: flat(state.settings) if pairs else described(state.settings),
            change=lambda s: change_settings(s, pairs, by=by, reason=args.reason),
            about=lambda state: described(state.settings),
        )
    return 0


def _set(
    ctx: Context,
    pairs: Mapping[str, str],
    *,
    values: Callable[[RunState], dict[str, Any]],
    change: Callable[[RunState], Sequence[KnownEvent]],
    about: Callable[[RunState], dict[str, Any]],
) -> None:
    if not pairs:
        state = ctx.read()[1]
        lines = [f"{key} = {shown(each)}" for key, each in values(state).items()]
        ctx.result(about(state), "\n".join(lines))
        return
    before: dict[str, Any] = {}

    def decide(state: RunState) -> Sequence[KnownEvent]:
        before.clear()
        before.update(values(state))
        return change(state)

    state, _ = ctx.commit(decide)
    after = values(state)
    lines = [_changed(key, before.get(key), after.get(key)) for key in pairs]
    ctx.result(about(state), "\n".join(lines))


def _changed(key: str, before: object, after: object) -> str:
    if before == after:
        return f"{key} = {shown(after)}, as before"
    return f"{key} = {shown(after)}, was {shown(before)}"


def _take_back(commands: int, reason: str, ctx: Context) -> None:
    state, entries = ctx.commit(
        lambda present: undo(present, commands, by=ctx.environment.user, reason=reason)
    )
    made = {entry.seq for entry in entries}
    rows = [row for row in history(state) if row.seq in made]
    lines = [
        f"{row.task_id + ': ' if row.task_id else ''}{_changed(row.key, row.was, row.now)}"
        for row in rows
        if row.key
    ]
    ctx.result(rows, "\n".join(lines) or "taken back; every value is as it was")


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise Usage(f"--undo takes a number of commands from 1 on, not {text!r}")
    return int(text)
