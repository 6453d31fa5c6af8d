"""``--detach``: start the driver where the launching session cannot reach it, and see it begin.

The new driver leads its own session and process group, has no terminal and no descriptor of the
launcher's, and is reparented when the launcher returns: that is once this very process's first
heartbeat is durable, or it has ended, or a bound is over.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import orchestrator
from orchestrator.core.errors import EnvironmentFault, ExitStatus, in_full
from orchestrator.given_file import at_once
from orchestrator.journal.store import RunStore

BEGIN_WITHIN_S = 60.0
POLL_S = 0.02
LOG_TAIL_BYTES = 64 * 1024


class DidNotBegin(EnvironmentFault):
    """The driver ended before its first heartbeat; ``exit_status`` is its own."""

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        known = exit_status in set(ExitStatus) and exit_status != ExitStatus.DONE
        self.exit_status = ExitStatus(exit_status) if known else ExitStatus.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Launched:
    pid: int
    ended: int | None
    """The exit status of a driver that was done before the launcher could return."""


def launch(store: RunStore, arguments: Sequence[str]) -> Launched:
    """Start ``orchestrator ARGUMENTS`` detached.  Raises DidNotBegin."""
    log_start, driver_start = _size(store.log_path), _size(store.driver_path)
    argv = [sys.executable, "-P", "-m", "orchestrator", *arguments]
    try:
        with open(store.log_path, "ab", opener=at_once) as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
    except OSError as error:
        raise EnvironmentFault(in_full(error, "cannot start a driver")) from error
    deadline = time.monotonic() + BEGIN_WITHIN_S
    while not has_begun(store.driver_path, driver_start, process.pid):
        ended = process.poll()
        if ended == 0:
            break  # there was nothing left to do
        if ended is not None and not has_begun(store.driver_path, driver_start, process.pid):
            raise DidNotBegin(_last_words(store.log_path, log_start, ended), ended)
        if time.monotonic() > deadline:
            raise EnvironmentFault(
                f"driver {process.pid} lives, and has not begun within {BEGIN_WITHIN_S:.0f} s:"
                f" see {store.log_path}"
            )
        time.sleep(POLL_S)
    return Launched(pid=process.pid, ended=process.poll())


def has_begun(path: Path, offset: int, pid: int) -> bool:
    """Whether the driver ``pid`` has written a heartbeat after ``offset``; it syncs the first."""
    mine = False
    for line in _after(path, offset).split(b"\n")[:-1]:
        try:
            record = msgspec.json.decode(line, type=_Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # torn by an earlier driver's end
        if record.type == "driver_start":
            mine = record.pid == pid
        elif record.type == "driver_heartbeat" and mine:
            return True
    return False


class _Record(msgspec.Struct):
    type: str = ""
    pid: int = 0


def _last_words(log: Path, offset: int, status: int) -> str:
    lines = _after(log, offset)[-LOG_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
    said = [line for line in lines if line.startswith("orchestrator: ")]
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    if said:
        return said[-1].removeprefix("orchestrator: ")
    return f"the driver {how} before it began: see {log}"


def _environment() -> dict[str, str]:
    """``-P`` keeps a repository's own files from being imported; a source tree of ours that is
    not installed is then found by name."""
    root = str(Path(orchestrator.__file__).resolve().parent.parent)
    environment = dict(os.environ)
    if not root.endswith(("site-packages", "dist-packages")):
        paths = [root, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _after(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""
