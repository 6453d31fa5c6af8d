"""A file that grows, read from its start in bounded pieces, in trio.

Invariant: however much there is, no more than CHUNK_BYTES of it is held, and others get a turn
after each piece.
"""

import os
from collections.abc import Callable
from pathlib import Path

import trio

from orchestrator.given_file import open_file

CHUNK_BYTES = 1 << 15
"""Ten thousand lines of noise at most: others wait for a tenth of a second, not more."""


class Tail:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    async def feed(self, feed: Callable[[bytes], None]) -> None:
        """All that is there now; what is written meanwhile is left for the next time."""
        if self._fd is None:
            try:
                self._fd = open_file(self._path)
            except FileNotFoundError:
                return
        left = os.fstat(self._fd).st_size - os.lseek(self._fd, 0, os.SEEK_CUR)
        while left > 0 and (data := os.read(self._fd, min(CHUNK_BYTES, left))):
            left -= len(data)
            feed(data)
            await trio.lowlevel.checkpoint()

    def __enter__(self) -> "Tail":
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)
