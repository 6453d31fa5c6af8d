"""Look at a run while others work on it: its state, kept up to date.  Writes nothing."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.events import Entry
from orchestrator.core.fold import fold
from orchestrator.core.state import RunState
from orchestrator.given_file import open_file
from orchestrator.journal.read import following
from orchestrator.journal.scan import Follower, no_event
from orchestrator.journal.store import RunStore

LOOK_EVERY_S = 0.25
LINE_BYTES_MAX = 4 * 1024 * 1024
"""Of a child's output; the rest of a longer line is passed over."""


class Onlooker:
    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._state: RunState | None = None
        self.news: list[Entry] = []
        """What the last look saw for the first time."""

    def look(self) -> RunState:
        """The state now."""
        self.news.clear()
        while entries := self._follower.next_batch().entries:
            for entry in entries:
                self._state = fold(self._state, entry)
            self.news += entries
        if self._state is None:
            raise no_event("the run's journal")
        return self._state


@contextmanager
def onlooker(store: RunStore) -> Iterator[Onlooker]:
    with following(store.events_path) as follower:
        yield Onlooker(follower)


def moments() -> Iterator[float]:
    """Now, and again and again, a little later each time, until Ctrl-C ends the process.

    At once, by the kernel: nothing is half done here, and an exception could be lost in whatever
    code it interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored by a shell
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        yield time.time()
        time.sleep(LOOK_EVERY_S)


class GrowingFile:
    """The whole lines that a file gets, whoever writes it; it may not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""
        self._too_long = False
        self.is_new = True
        """Nobody has asked for its lines yet, of which there may be none for a while."""

    def new_lines(self) -> Iterator[bytes]:
        self.is_new = False
        try:
            with open(open_file(self.path), "rb") as file:
                file.seek(self._offset)
                while data := file.read(1024 * 1024):
                    self._offset += len(data)
                    yield from self._cut(data)
        except FileNotFoundError:
            return

    def _cut(self, data: bytes) -> Iterator[bytes]:
        first, *others = data.split(b"\n")
        if len(self._rest) + len(first) <= LINE_BYTES_MAX:
            self._rest += first
        else:
            self._rest, self._too_long = b"", True
        for other in others:
            if not self._too_long:
                yield self._rest
            self._rest, self._too_long = other, False


class Streams:
    """The raw outputs of one task's dispatches, from the one under way onwards."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._current: GrowingFile | None = None
        self._seen: set[Path] = set()

    def paths(self) -> list[Path]:
        """Oldest first: only the last of them still grows."""
        found = [(path.stat().st_mtime_ns, path) for path in self._directory.glob("*.stream.jsonl")]
        return [path for _, path in sorted(found)]

    def to_read(self) -> list[GrowingFile]:
        """The current one, then those that came after it: each file once, whatever its age."""
        paths = self.paths()
        if self._current is None:
            self._seen.update(paths[:-1])
        current = [self._current] if self._current is not None else []
        later = [path for path in paths if path not in self._seen]
        self._seen.update(later)
        files = [*current, *(GrowingFile(path) for path in later)]
        self._current = files[-1] if files else None
        return files
