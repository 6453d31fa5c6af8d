"""How a command ends badly: one line on stderr, and the exit status that INTERFACE promises.

An unexpected error is a fault of this program or of the machine: status 5, and its traceback
goes to a file whose path the line names.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TextIO

from orchestrator.core.errors import ExitStatus, OrchestratorError, in_full


class Log:
    """Where a traceback goes: beside the run once there is one."""

    def __init__(self) -> None:
        self.directory: str | os.PathLike[str] | None = None

    def write(self, error: BaseException) -> str | None:
        """None where it cannot be written: there is nothing more to be done about that."""
        import tempfile
        import time
        import traceback

        text = "".join(traceback.format_exception(error))
        for directory in (self.directory, tempfile.gettempdir()):
            if directory is None:
                continue
            path = os.path.join(directory, "orchestrator-errors.log")
            try:
                os.makedirs(directory, exist_ok=True)
                with open(path, "a", encoding="utf-8", errors="backslashreplace") as log:
                    log.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n{text}")
            except OSError:
                continue
            return path
        return None


def report(error: BaseException, log: Log) -> int:
    drop_unwritten(sys.stdout)
    match cause(error):
        case OrchestratorError() as known:
            _say(str(known))
            return known.exit_status
        case KeyboardInterrupt():
            end_by(signal.SIGINT)
        case BrokenPipeError():
            end_by(signal.SIGPIPE)
        case OSError() as fault if fault.strerror:
            _say(f"{in_full(fault)}{_more(log.write(error))}")
        case other:
            kind, text = type(other).__name__, " ".join(str(other).split())[:200]
            _say(f"unexpected {kind}: {text}{_more(log.write(error))}")
    return ExitStatus.ENVIRONMENT


def cause(error: BaseException) -> BaseException:
    """The one error to speak of, out of what a nursery may have wrapped."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [cause(each) for each in error.exceptions]
    for kind in (KeyboardInterrupt, OrchestratorError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


@contextmanager
def last_word(note: Callable[[str], None]) -> Iterator[None]:
    """What is printed at the end changes nothing where it cannot be: how it ends is known by then.

    That nobody is there any more is no news.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, OrchestratorError) as error:
        drop_unwritten(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            note(f"the status is not shown: {getattr(error, 'strerror', None) or error}")


def drop_unwritten(stream: TextIO | None) -> None:
    """What a stream does not take now, it would not take at exit: Python would end with 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _say(text: str) -> None:
    line = " ".join(text.split())
    try:
        print(f"orchestrator: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody listens; the exit status still tells


def _more(path: str | None) -> str:
    return f" (details in {path})" if path else ""


def end_by(number: int) -> NoReturn:
    """End as if the signal had not been caught, so that a shell sees 128 + n."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # only where the signal is blocked
