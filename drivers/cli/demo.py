"""``demo``: the main job, seen on a sample repository that it makes.

Everything is real but the thinking: the driver, its children, git, the tests of the sample.
The model is the bundled rehearsal agent, or with ``--real`` the installed client.
"""

import argparse
import shutil
import subprocess
import sys

from drivers.cli import failure
from drivers.cli.context import Context
from drivers.cli.demo_report import Place, Report
from drivers.cli.onlooker import onlooker
from drivers.cli.showcase import command, drive, keep_store_in, new_directory
from orchestrator.core.errors import EnvironmentFault, Refused, Usage
from orchestrator.core.options import value_of
from orchestrator.journal.store import RunStore

HELP = """Make a sample repository, a small Python package with five tasks that depend on each
other, and drive them through all stages, with the bundled rehearsal agent: no account, no network,
some seconds.  --real uses the installed claude instead, and spends money."""

REAL_BUDGET_USD = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="DIR", help="where to make it (default: a new one)")
    parser.add_argument("--max-concurrent", metavar="N", help="children at once (default: 3)")
    parser.add_argument("--real", action="store_true", help="with the installed claude, for money")
    parser.add_argument(
        "--budget-usd",
        metavar="X",
        help=f"with --real: what it may spend (default: {REAL_BUDGET_USD:g})",
    )
    parser.add_argument("--yes", action="store_true", help="with --real: spend it without asking")


def run(args: argparse.Namespace, ctx: Context) -> int:
    _require_programs(real=args.real)
    if args.max_concurrent is not None:  # refused before there is anything to throw away
        value_of("max_concurrent", args.max_concurrent)
    if args.budget_usd is not None and not args.real:
        raise Usage("--budget-usd is for --real: the rehearsal agent spends nothing")
    if args.real:
        args.budget_usd = args.budget_usd or str(REAL_BUDGET_USD)
        _agree(args.budget_usd, ask=not args.yes)
    place = Place(new_directory(args.dir, prefix="orchestrator-demo-"))
    ctx.note(f"making a sample repository in {place.repository}")
    _make_repository(place, real=args.real)
    store = _make_run(args, ctx, place)
    ended = drive(ctx, store, unit="USD" if args.real else "USD of rehearsal money")
    with onlooker(store) as looking:
        state = looking.look()
    report = Report(place=place, store=store, state=state, status=ended.status, real=args.real)
    ctx.result(report.value(ctx.command), report.text(ctx.command))
    if ended.signal is not None:
        sys.stdout.flush()
        failure.end_by(ended.signal)
    return ended.status


def _require_programs(*, real: bool) -> None:
    if shutil.which("git") is None:
        raise EnvironmentFault("git is not on PATH: install it, the demo works on a repository")
    if shutil.which("python3") is None:
        raise EnvironmentFault("python3 is not on PATH: the sample's tests need it")
    if real and shutil.which("claude") is None:
        raise EnvironmentFault("claude is not on PATH: install it and log in, or leave --real out")


def _agree(budget_usd: str | None, *, ask: bool) -> None:
    said = (
        f"--real drives 5 tasks with your claude: about 16 calls, at most {budget_usd} USD, and one"
        " turn per child more"
    )
    if not ask:
        print(f"note: {said}", file=sys.stderr, flush=True)
        return
    if not sys.stdin.isatty():
        raise Usage(f"{said}: say --yes where nobody can be asked")
    print(f"{said}. Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was made, nothing was spent")


def _make_repository(place: Place, *, real: bool) -> None:
    from adapters.execution.rehearsal.sample_repository import make_repository

    try:
        if real:
            make_repository(place.repository, command=("claude",))
        else:
            home = {"CLAUDE_CONFIG_DIR": str(place.agent_home)}
            make_repository(place.repository, agent_env=home)
    except subprocess.CalledProcessError as error:
        said = " ".join(str(error.stderr).split()) or f"status {error.returncode}"
        raise EnvironmentFault(f"git cannot make the sample repository: {said}") from error


def _make_run(args: argparse.Namespace, ctx: Context, place: Place) -> RunStore:
    """By the commands that anybody would use, shown as they are run."""
    keep_store_in(ctx, place.runs, run_id="demo")
    options = []
    for option, value in (
        ("--max-concurrent", args.max_concurrent),
        ("--budget-usd", args.budget_usd),
    ):
        options += [option, value] if value is not None else []
    made = command(ctx, "--project", str(place.repository), "init-run", *options)
    ctx.run_id = made.run
    command(ctx, "add-task", "--all")
    return ctx.store()
