"""Where the commits in a journal's bytes end, and whether its rest is torn or damaged.

Invariant: only whole commits come out, in order and without gaps.  A commit is
synced before the next is written, so bytes that cannot be read are a torn tail
where no other commit follows them, and damage where one does.  A whole line that is
a JSON object was not torn: what cannot be understood of it is damage, or another format.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

from orchestrator.core.errors import JournalDamaged
from orchestrator.core.events import Entry
from orchestrator.journal.codec import (
    Unreadable,
    WrittenByNewer,
    decode,
    decode_lines,
    is_torn,
)

Read = Callable[[int, int], bytes]
"""(offset, bytes_max) -> bytes, fewer only at the end of the file.  ``bytes_max`` may be huge."""

BATCH_BYTES = 1 << 18
"""Read at once: bounds the memory that a journal of any length needs."""

_ALL = 1 << 62

_MARK_BYTES = 128
"""Compared before each read on: tells a journal that was rewritten under its reader."""


def require_run(name: str, found: str, wanted: str) -> None:
    """A run's directory under another name would drive the same branches and worktrees."""
    if found != wanted:
        raise JournalDamaged(
            f"{name}: this is the journal of run {found}, not of {wanted}: give the directory its"
            f" name back, or work with --run {found}"
        )


def no_event(name: str) -> JournalDamaged:
    """The driver or the command that was to make the run was cut off."""
    return JournalDamaged(f"{name}: no event is recorded whole: make the run anew with init-run")


class Batch(NamedTuple):
    entries: list[Entry]
    torn: bool
    """At the end: bytes follow that are no whole commit, one being written or a torn tail."""


class Position(NamedTuple):
    """The end of a whole commit."""

    offset: int
    line: int
    seq: int
    mark: bytes
    """What the file ends with there."""
    checksum: int
    """CRC-32 of all that comes before."""


class Follower:
    """Reads a journal on from where it last was, batch by batch."""

    def __init__(self, read: Read, name: str) -> None:
        self._read = read
        self._name = name
        self._mark = b""
        self._checksum = 0
        self.offset = 0
        """Of the end of the last whole commit."""
        self.line = 0
        """How many lines end there."""
        self.seq = 0

    @property
    def position(self) -> Position:
        return Position(self.offset, self.line, self.seq, self._mark, self._checksum)

    def go_to(self, position: Position) -> bool:
        """Read on from there, if the file is still what it was there; otherwise change nothing."""
        mark = position.mark
        if not mark or self._read(position.offset - len(mark), len(mark)) != mark:
            return False
        self.offset, self.line, self.seq, self._mark, self._checksum = position
        return True

    def check_to(self, position: Position) -> bool:
        """The same, if the file is what it was everywhere before: reads all of it."""
        checksum = 0
        for offset in range(0, position.offset, BATCH_BYTES):
            size = min(BATCH_BYTES, position.offset - offset)
            checksum = zlib.crc32(self._read(offset, size), checksum)
        return checksum == position.checksum and self.go_to(position)

    def next_batch(self) -> Batch:
        """The next whole commits, about ``BATCH_BYTES`` of them; none: the end is reached.

        Raises JournalDamaged, naming the line.
        """
        wanted = BATCH_BYTES
        while True:
            data = self._read_on(wanted)
            entries, bad = self._scan(data)
            if bad is not None and not entries:
                self._require_torn(self.rest(), bad)
                return Batch(entries, torn=True)
            if entries or len(data) < wanted:
                return Batch(entries, torn=not entries and bool(data))
            wanted *= 2  # one commit longer than this

    def rest(self) -> bytes:
        """What follows the last whole commit."""
        return self._read_on(_ALL)

    def advance(self, data: bytes, used: int, entries: int) -> None:
        """Pass over whole commits: the first ``used`` bytes, which hold this many entries."""
        self.offset += used
        self.line += entries
        self.seq += entries
        self._mark = (self._mark + data[max(0, used - _MARK_BYTES) : used])[-_MARK_BYTES:]
        self._checksum = zlib.crc32(memoryview(data)[:used], self._checksum)

    def _read_on(self, bytes_max: int) -> bytes:
        mark = self._mark
        data = self._read(self.offset - len(mark), len(mark) + bytes_max)
        if not data.startswith(mark):
            raise JournalDamaged(
                f"{self._name}: what was read up to line {self.line} is not there any more; the"
                " disk lost it, or something else wrote to the file: run the command again, and"
                " restore the file from a copy if it says this twice"
            )
        return data[len(mark) :]

    def _scan(self, data: bytes) -> tuple[list[Entry], str | None]:
        """Pass over the whole commits in ``data``: their entries, and the bad line after them."""
        try:
            lines, error = decode_lines(data)
        except WrittenByNewer as newer:
            where = f"{self._name}: line {self.line + newer.lines_before + 1}: "
            raise WrittenByNewer(newer.version, where) from None
        whole = 0
        for number, (entry, ends_commit, commit_lines) in enumerate(lines, 1):
            if entry.seq != self.seq + number:
                self._refuse(
                    f"line {self.line + number} has number {entry.seq}"
                    f" where {self.seq + number} belongs"
                )
            if ends_commit:
                if commit_lines not in {0, number - whole}:
                    self._refuse(
                        f"line {self.line + number} ends a commit of {commit_lines} lines, and"
                        f" there are {number - whole}"
                    )
                whole = number
        bad = f"line {self.line + len(lines) + 1}: {error}" if error else None
        self.advance(data, _end_of_line(data, whole), whole)
        return [entry for entry, _, _ in lines[:whole]], bad

    def _require_torn(self, rest: bytes, bad: str) -> None:
        """``rest`` holds a line that cannot be read: refuse it unless it is of the last commit."""
        *lines, unfinished = rest.split(b"\n")
        for index, line in enumerate(lines):
            try:
                entry, ends_commit, commit_lines = decode(line)
            except Unreadable:
                if not is_torn(line):
                    self._refuse(bad)
                continue
            if not ends_commit:
                continue
            is_this_commit = entry.seq - max(commit_lines, 1) == self.seq
            is_last = index == len(lines) - 1 and not unfinished
            if not (is_this_commit and is_last):
                self._refuse(bad)

    def _refuse(self, what: str) -> None:
        raise JournalDamaged(
            f"{self._name}: {what}; nothing was changed: restore the file from a copy, or ask for"
            " help with it"
        )


def _end_of_line(data: bytes, number: int) -> int:
    """Where the ``number``-th line ends, which is near the end of ``data``."""
    end = len(data)
    for _ in range(data.count(b"\n") - number + 1):
        end = data.rfind(b"\n", 0, end)
    return end + 1
