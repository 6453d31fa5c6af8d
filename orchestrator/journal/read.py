"""Read a journal without writing, locking or waiting: for status, and for whoever looks on.

Invariant: imports no event loop, so that a command which only looks starts at once.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.errors import EnvironmentFault, with_remedy
from orchestrator.core.events import Entry
from orchestrator.given_file import open_file
from orchestrator.journal.scan import Follower


def read_entries(path: Path) -> Iterator[Entry]:
    """The whole commits in the file, oldest first.  Raises JournalDamaged."""
    with following(path) as follower:
        while entries := follower.next_batch().entries:
            yield from entries


@contextmanager
def following(path: Path) -> Iterator[Follower]:
    """A Follower on the file, to be asked again for what is appended later."""
    try:
        descriptor = open_file(path)
    except OSError as error:
        raise EnvironmentFault(
            with_remedy(error, f"{path}: cannot be read", "check that the run directory is there")
        ) from error
    try:
        yield Follower(lambda offset, size: read_at(descriptor, offset, size), str(path))
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, bytes_max: int) -> bytes:
    wanted = min(bytes_max, os.fstat(descriptor).st_size - offset)
    return os.pread(descriptor, wanted, offset) if wanted > 0 else b""
