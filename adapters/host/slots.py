"""The places for children on this host, which all drivers of a user share.

A place is a file ``NN.lock`` with a lock of the kernel's on it.  Whoever starts a child takes one
first, hands its descriptor to the shim, and keeps its own until the dispatch is over.  So a place
is free exactly when no shim and no driver holds it any more, however they ended.

Drivers may be told different numbers of places: each looks at the first so many.

Invariant: nothing here waits, and nothing is left to be tidied up.  Where files cannot be kept or
locked, children are not counted, and ``problem`` says why.
"""

import errno
import fcntl
import os
import time
from pathlib import Path

TAKE_TRIES = 3
TAKE_PAUSE_S = 0.002
"""Between the tries: somebody's look holds a lock for an instant."""
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Slot:
    """A place that is held until release(), and longer by a shim that has inherited it."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        """None: children are not counted."""
        self.is_waiting = False
        """Its dispatch has not begun: its driver may still start it."""

    def release(self) -> None:
        descriptor, self.descriptor = self.descriptor, None
        self.is_waiting = False
        if descriptor is not None:
            os.close(descriptor)


class Slots:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._taken: list[Slot] = []
        self.problem = ""

    def take(self, places: int) -> Slot | None:
        """One of the first so many.  None: all are taken.  Raises OSError for want of
        descriptors."""
        slot = Slot(None)
        if places and not self.problem:
            try:
                descriptor = self._lock_one(places)
            except OSError as fault:
                self._is_not_possible(fault)
            else:
                if descriptor is None:
                    return None
                slot = Slot(descriptor)
        self._taken = [one for one in self._taken if one.descriptor is not None]
        self._taken.append(slot)
        return slot

    def free(self, places: int) -> int | None:
        """How many more children may start: the places that nobody holds, and those that this
        driver has taken and not used yet.  None: children are not counted."""
        if not places or self.problem:
            return None
        try:
            nobodys = sum(not self._is_taken(number) for number in range(places))
        except OSError as fault:
            self._is_not_possible(fault)
            return None
        waiting = sum(one.is_waiting and one.descriptor is not None for one in self._taken)
        return nobodys + waiting

    def _lock_one(self, places: int) -> int | None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        for tries_left in range(TAKE_TRIES - 1, -1, -1):
            for number in range(places):
                if (descriptor := self._lock(number)) is not None:
                    return descriptor
            if tries_left:
                time.sleep(TAKE_PAUSE_S)
        return None

    def _lock(self, number: int) -> int | None:
        """A descriptor out of the way of the standard ones, and of those that a shim gets."""
        fd = os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        except BlockingIOError:
            return None
        finally:
            os.close(fd)

    def _is_taken(self, number: int) -> bool:
        """The look itself is a shared lock, held for an instant."""
        try:
            fd = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:02}.lock"

    def _is_not_possible(self, fault: OSError) -> None:
        if fault.errno in NO_DESCRIPTORS:
            raise fault
        self.problem = f"{self._directory}: {fault.strerror or fault}"
