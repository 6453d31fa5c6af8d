"""Cut a stream of bytes into lines, sans I/O.

Memory stays under ``line_bytes_max`` plus one chunk, and time stays linear, whatever
comes in: a longer line is skipped and counted, a torn last line is dropped and counted.
"""

LINE_BYTES_MAX = 16 * 1024 * 1024


class LineSplitter:
    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._held = bytearray()
        self._skipping = False
        self.oversize_count = 0
        """Lines that were longer than the limit."""
        self.torn_count = 0
        """1 after close(), if the stream did not end with a newline."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes, without their newlines."""
        first, newline, rest = data.partition(b"\n")
        self._hold(first)
        if not newline:
            return []
        lines = []
        if self._skipping:
            self.oversize_count += 1
        else:
            lines.append(bytes(self._held))
        self._forget()
        *complete, tail = rest.split(b"\n")
        for line in complete:
            if len(line) > self._line_bytes_max:
                self.oversize_count += 1
            else:
                lines.append(line)
        self._hold(tail)
        return lines

    def close(self) -> bytes:
        """End of stream: the unfinished line, or b"" where there is none or it is too long."""
        tail = bytes(self._held)
        self.torn_count += bool(tail) or self._skipping
        self._forget()
        return tail

    def _hold(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        if len(self._held) + len(part) > self._line_bytes_max:
            self._forget()
            self._skipping = True
        else:
            self._held += part

    def _forget(self) -> None:
        self._held = bytearray()
        self._skipping = False
