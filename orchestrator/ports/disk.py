"""The one file a journal is kept in, as a machine offers it.

Nothing here knows what a line is.  The simulator replaces it: so nothing behind it
that simulated code waits for may be a thread.
"""

from typing import Protocol


class SyncFailed(OSError):
    """The write went through and the sync did not: what is on the disk is unknown from here on."""


class Disk(Protocol):
    @property
    def name(self) -> str:
        """The file's path, for messages."""
        ...

    def size(self) -> int: ...

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Fewer than ``bytes_max``, which may be huge, only at the end of the file."""
        ...

    async def lock(self, wait_s: float) -> bool:
        """Exclude every other writer, of this process and of others.

        False when another held it for all of ``wait_s``.  Raises OSError where locks are not
        supported, or where the file is not the one at its path any more.
        """
        ...

    def unlock(self) -> None: ...

    async def append(self, data: bytes) -> int:
        """One write at the end, then, if all of it was taken, one sync.  Returns what was written.

        Not to be interrupted: a cancellation takes effect after it.  Raises OSError where the
        write failed, SyncFailed where the sync did.
        """
        ...

    async def truncate(self, size: int) -> None: ...

    async def set_aside(self, data: bytes) -> str:
        """Keep bytes that are about to be cut, synced, in a new file beside; returns its path."""
        ...

    async def changed(self) -> None:
        """Return soon after the file may have changed; also when it did since the last call."""
        ...
