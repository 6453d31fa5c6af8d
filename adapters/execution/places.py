"""The places on this host that one driver's dispatches hold: see adapters/host/slots.py.

Invariant: a dispatch has at most one, from before its intent until it is over; its shim shares it,
and keeps it alone where this driver dies.
"""

from collections.abc import Callable

from adapters.execution.stems import Stem
from adapters.host.slots import Slot, Slots


class Places:
    def __init__(self, slots: Slots | None, children_max: Callable[[], int]) -> None:
        """``slots`` None: children are not counted."""
        self._slots = slots
        self._children_max = children_max
        self._held: dict[str, Slot] = {}

    def hold(self, stem: Stem) -> bool:
        """Take one for a dispatch, unless it has one.  False: all are taken.

        A child of an earlier driver that has lost its shim, or is to be started the other way,
        goes on without one then.
        """
        if self._slots is None or stem.dispatch in self._held:
            return True
        slot = self._slots.take(self._children_max())
        if slot is not None:
            self._held[stem.dispatch] = slot
        return slot is not None

    def reserve(self, stem: Stem) -> bool:
        """The same for one that is not out yet: until begin() its place counts as free here."""
        is_held = self.hold(stem)
        if (slot := self._held.get(stem.dispatch)) is not None:
            slot.is_waiting = True
        return is_held

    def begin(self, stem: Stem) -> None:
        if (slot := self._held.get(stem.dispatch)) is not None:
            slot.is_waiting = False

    def descriptor(self, stem: Stem) -> int | None:
        slot = self._held.get(stem.dispatch)
        return None if slot is None else slot.descriptor

    def let_go(self, stem: Stem) -> None:
        if (slot := self._held.pop(stem.dispatch, None)) is not None:
            slot.release()
