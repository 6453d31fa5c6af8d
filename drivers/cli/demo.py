"""``demo``: the main job, seen on a sample repository that it makes.

Everything is real but the thinking: the driver, its children, git, the tests of the sample.
The model is the bundled rehearsal agent, or with ``--real`` the installed client.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

import orchestrator
from drivers.cli import failure
from drivers.cli.context import Context
from drivers.cli.demo_report import Place, Report
from drivers.cli.demo_view import view_on
from drivers.cli.onlooker import onlooker
from orchestrator.core.errors import EnvironmentFault, ExitStatus, Refused, Usage
from orchestrator.journal.store import RunStore

HELP = """Make a sample repository, a small Python package with five tasks that depend on each
other, and drive them through all stages, with the bundled rehearsal agent: no account, no network,
some seconds.  --real uses the installed claude instead, and spends money."""

LOOK_EVERY_S = 0.15
GIT_TIMEOUT_S = 30
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


class CommandFailed(Refused):
    """One of the demo's own commands ended badly; its words, and its exit status."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        known = status in set(ExitStatus) and status != ExitStatus.DONE
        self.exit_status = ExitStatus(status) if known else ExitStatus.ENVIRONMENT


def run(args: argparse.Namespace, ctx: Context) -> int:
    _require_programs(real=args.real)
    if args.budget_usd is not None and not args.real:
        raise Usage("--budget-usd is for --real: the rehearsal agent spends nothing")
    if args.real:
        args.budget_usd = args.budget_usd or str(REAL_BUDGET_USD)
        _agree(args.budget_usd, ask=not args.yes)
    place = Place(_directory(args.dir))
    ctx.note(f"making a sample repository in {place.repository}")
    _make_repository(place, real=args.real)
    store = _make_run(args, ctx, place)
    ended = _drive(ctx, store, unit="USD" if args.real else "USD of rehearsal money")
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


def _directory(given: str | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="orchestrator-demo-")).resolve()
    directory = Path(given).absolute()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Refused(f"{directory} is there and not an empty directory: name another with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


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
    if ctx.root is None and "ORCHESTRATOR_RUNS_ROOT" not in os.environ:
        ctx.root = place.runs
    if ctx.run_id is None and ctx.root == place.runs:
        ctx.run_id = "demo"
    options = []
    for option, value in (
        ("--max-concurrent", args.max_concurrent),
        ("--budget-usd", args.budget_usd),
    ):
        options += [option, value] if value is not None else []
    made = _command(ctx, "--project", str(place.repository), "init-run", *options)
    ctx.run_id = made.run
    _command(ctx, "add-task", "--all")
    return ctx.store()


class _Made(msgspec.Struct):
    """Of a command's JSON: the run it was about."""

    run: str = ""


def _command(ctx: Context, *words: str) -> _Made:
    ctx.note(f"$ {ctx.command(*words)}")
    done = subprocess.run(
        [*_program(), *_where(ctx), *words, "--json"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environment(),
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        raise CommandFailed(said[-1].removeprefix("orchestrator: "), done.returncode)
    return msgspec.json.decode(done.stdout, type=_Made)


@dataclass(frozen=True, slots=True)
class _Ended:
    status: int
    signal: int | None
    """That was passed on to the driver, which ended by it."""


def _drive(ctx: Context, store: RunStore, *, unit: str) -> _Ended:
    """Run the driver as a child, and show the run meanwhile."""
    words = ("run-headless", "--wait")
    ctx.note(f"$ {ctx.command(*words)}")
    view = view_on(sys.stderr, unit=unit)
    # Its narration goes where it keeps it anyway; a group of its own, so that each Ctrl-C
    # reaches it once, from here.
    with (
        store.log_path.open("ab") as log,
        subprocess.Popen(
            [*_program(), *_where(ctx), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=_environment(),
            process_group=0,
        ) as driver,
        _signals_passed_on(driver),
        onlooker(store) as looking,
    ):
        while True:
            has_ended = driver.poll() is not None
            state = looking.look()
            view.show(state, looking.news, ctx.now())
            if has_ended:
                break
            try:
                driver.wait(LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
        view.close(state, ctx.now())
    if driver.returncode < 0:
        return _Ended(128 - driver.returncode, -driver.returncode)
    if not state.audit.dispatched:
        raise CommandFailed(_last_words(store.log_path), driver.returncode)
    return _Ended(driver.returncode, None)


@contextmanager
def _signals_passed_on(driver: "subprocess.Popen[bytes]") -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        driver.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_words(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    said = [line for line in lines if line.startswith("orchestrator: ")]
    return said[-1].removeprefix("orchestrator: ") if said else f"nothing was started: see {log}"


def _program() -> Sequence[str]:
    return (sys.executable, "-P", "-m", "orchestrator")


def _where(ctx: Context) -> Sequence[str]:
    root = ("--root", str(ctx.root)) if ctx.root is not None else ()
    return (*root, "--run", ctx.run_id) if ctx.run_id else root


def _environment() -> dict[str, str]:
    """With the source tree, where this is not installed: ``-P`` leaves the directory out."""
    source = str(Path(orchestrator.__file__).resolve().parent.parent)
    paths = [source, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
