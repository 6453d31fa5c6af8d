"""Run one command of the project's, with its output passed on and its end bounded.

Invariant: memory is bounded whatever it prints, and its end is seen even when something it
left behind holds its output open.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from adapters.execution.lines import LineSplitter
from adapters.execution.steps.result import OUTPUT_BYTES_MAX, TAIL_BYTES_MAX, Printer
from adapters.execution.telling import telling_line
from orchestrator.core.errors import is_starved

READ_BYTES = 64 * 1024
LINE_BYTES_MAX = 64 * 1024
OVERHEAD_BYTES = 64
"""What wrapping a piece of output costs: a command may print one byte at a time."""
EXIT_POLL_S = 0.05
"""How soon an exit is noticed while the output stays open."""
DRAINED_BYTES_MAX = 2 * 1024 * 1024
"""Read after the exit: more than a pipe holds, so that only what was left behind goes unread."""
TERMINATE_WAIT_S = 5.0

CANNOT_RUN = frozenset({126, 127})
_ENDED_FROM_OUTSIDE = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT}
)


class Finished(NamedTuple):
    status: int
    """Its exit status; 128 + n after signal n; 127 or 126 where it could not be started."""
    tail: str
    duration_s: float
    timed_out: bool = False

    @property
    def could_not_run(self) -> bool:
        return self.status in CANNOT_RUN

    @property
    def telling_line(self) -> str:
        return telling_line(self.tail) or "it printed nothing"

    @property
    def was_killed(self) -> bool:
        """By something around it, such as a machine short of memory; a crash is its own."""
        return self.status - 128 in _ENDED_FROM_OUTSIDE


class Commands:
    """Runs them one at a time in ``env``; ``stop`` ends the one under way."""

    def __init__(self, env: Mapping[str, str], printer: Printer) -> None:
        self.env = env
        self._printer = printer
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        name: str,
        argv: Sequence[str],
        cwd: str,
        *,
        on_line: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
    ) -> Finished:
        self._printer.step(name, argv=list(argv), cwd=cwd)
        started = time.monotonic()
        output = _Output(name, self._printer, on_line)
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        except OSError as error:
            if is_starved(error):  # for the moment: the command is not judged by it
                raise
            status = 127 if isinstance(error, FileNotFoundError) else 126
            finished = Finished(status, f"{argv[0]}: {error.strerror}", 0.0)
        else:
            self._process = process
            deadline = None if timeout_s is None else started + timeout_s
            timed_out = _follow(process, output, deadline)
            self._process = None
            status = process.returncode if process.returncode >= 0 else 128 - process.returncode
            tail = output.close()
            finished = Finished(status, tail, time.monotonic() - started, timed_out)
        self._printer.step(name, exit=finished.status, duration_s=round(finished.duration_s, 3))
        return finished

    def stop(self) -> None:
        """From a signal handler, before this program ends."""
        if self._process is not None:
            _signal_group(self._process, signal.SIGTERM)


class _Output:
    """What a command prints: passed on line by line, up to a bound, and its end kept."""

    def __init__(self, name: str, printer: Printer, on_line: Callable[[str], None] | None) -> None:
        self._name = name
        self._printer = printer
        self._on_line = on_line
        self._lines = LineSplitter(LINE_BYTES_MAX)
        self._waiting = b""
        self._left_bytes = OUTPUT_BYTES_MAX
        self._is_cut = False
        self._tail = b""

    def feed(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-TAIL_BYTES_MAX:]
        self._pass_on(data)
        for line in self._lines.feed(data):
            self._tell(line)

    def close(self) -> str:
        self._tell(self._lines.close())
        if self._is_cut:
            self._print(b"[more than is passed on; the end:]\n" + self._tail)
        elif self._waiting:
            self._print(self._waiting)
        return _text(self._tail)

    def _pass_on(self, data: bytes) -> None:
        if self._is_cut:
            return
        self._waiting += data
        whole, newline, rest = self._waiting.rpartition(b"\n")
        if newline or len(rest) > LINE_BYTES_MAX:
            part, self._waiting = (whole + newline, rest) if newline else (rest, b"")
            self._print(part[: self._left_bytes])
            self._left_bytes -= len(part) + OVERHEAD_BYTES
            self._is_cut = self._left_bytes <= 0

    def _print(self, data: bytes) -> None:
        self._printer.output(self._name, _text(data))

    def _tell(self, line: bytes) -> None:
        if self._on_line is not None and line:
            self._on_line(_text(line))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _follow(process: subprocess.Popen[bytes], output: _Output, deadline: float | None) -> bool:
    """Read until the process has ended; True where the deadline ended it."""
    assert process.stdout is not None
    timed_out = False
    left_bytes = DRAINED_BYTES_MAX
    with process.stdout, selectors.DefaultSelector() as ready:
        fd = process.stdout.fileno()
        os.set_blocking(fd, False)
        ready.register(fd, selectors.EVENT_READ)
        is_open = True
        while True:
            ended = process.poll() is not None
            left_bytes -= READ_BYTES if ended else 0
            if is_open and left_bytes > 0 and ready.select(0 if ended else EXIT_POLL_S):
                data = os.read(fd, READ_BYTES)
                is_open = bool(data)
                if data:
                    output.feed(data)
            elif ended:
                return timed_out
            elif not is_open:
                _wait_a_moment(process)
            if deadline is not None and time.monotonic() > deadline and not timed_out:
                timed_out = True
                _end(process)


def _wait_a_moment(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_POLL_S)
    except subprocess.TimeoutExpired:
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process, signal.SIGTERM)
    try:
        process.wait(TERMINATE_WAIT_S)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
