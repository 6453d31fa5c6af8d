"""Where the traceback of an unexpected error in one dispatch goes: beside the run.

Invariant: none reaches a terminal.  Without a handler of ours, Python would print it on stderr;
what a person is told is the dispatch's recorded ending, one line that names the error.
"""

import logging
from contextlib import suppress
from pathlib import Path

FILE = "orchestrator-errors.log"


class _File(logging.Handler):
    """Opened for each error: there may be none, and the disk may be full when there is one."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path
        self.setFormatter(logging.Formatter("--- %(asctime)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        with (
            suppress(OSError),
            self._path.open("a", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write(self.format(record) + "\n")


def keep_tracebacks(directory: Path) -> None:
    """From now on, for this process: what this program's loggers say goes there alone."""
    logger = logging.getLogger("orchestrator")
    logger.handlers = [_File(directory / FILE)]
    logger.propagate = False
