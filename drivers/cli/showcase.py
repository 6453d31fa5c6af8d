"""Drive a run of this program's own making as anybody would, by commands, and show it.

Shared by ``demo`` and ``rehearse``.  The driver is a child of its own: each signal that
reaches this process is passed on to it, once.
"""

import os
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
from drivers.cli.context import Context
from drivers.cli.demo_view import view_on
from drivers.cli.onlooker import onlooker
from orchestrator.core.errors import EnvironmentFault, ExitStatus, Refused, with_remedy
from orchestrator.journal.store import RunStore

LOOK_EVERY_S = 0.15


class CommandFailed(Refused):
    """One of the commands ended badly; its words, and its exit status."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        known = status in set(ExitStatus) and status != ExitStatus.DONE
        self.exit_status = ExitStatus(status) if known else ExitStatus.ENVIRONMENT


class Made(msgspec.Struct):
    """Of a command's JSON: the run it was about."""

    run: str = ""


def new_directory(given: str | None, *, prefix: str) -> Path:
    """Raises Refused where something is, EnvironmentFault where nothing can be made."""
    try:
        if given is None:
            return Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        return _made(Path(given).absolute())
    except OSError as error:
        what = f"{given or 'a new directory'} cannot be made"
        raise EnvironmentFault(with_remedy(error, what, "name another with --dir")) from error


def _made(directory: Path) -> Path:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Refused(f"{directory} is there and not an empty directory: name another with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()


def keep_store_in(ctx: Context, runs: Path, *, run_id: str) -> None:
    """Unless a person said where runs are kept, or what this one is called."""
    if ctx.root is None and "ORCHESTRATOR_RUNS_ROOT" not in os.environ:
        ctx.root = runs
    if ctx.run_id is None and ctx.root == runs:
        ctx.run_id = run_id


def command(ctx: Context, *words: str) -> Made:
    """A command of this program, shown as a person would type it."""
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
    return msgspec.json.decode(done.stdout, type=Made)


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    signal: int | None
    """That was passed on to the driver, which ended by it."""


def drive(ctx: Context, store: RunStore, *, unit: str) -> Ended:
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
        return Ended(128 - driver.returncode, -driver.returncode)
    if not state.audit.dispatched:
        raise CommandFailed(_last_words(store.log_path), driver.returncode)
    return Ended(driver.returncode, None)


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
