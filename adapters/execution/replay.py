"""Dates what a stream had said before anybody of this driver followed it."""

from collections.abc import Iterable, Iterator

import msgspec

from adapters.execution.stems import Stem
from orchestrator.core.model import WorkItem
from orchestrator.ports.execution import Observation, WindowsSeen


class Replay:
    """A restarted driver reads the stream from its start: what that says of the account's windows
    is not news, and must not take the place of what was seen since."""

    def __init__(self, stem: Stem, work: WorkItem, *, is_new: bool) -> None:
        self._at = work.created_at
        self._left = 0 if is_new else _size(stem)

    def dated(self, data: bytes, said: Iterable[Observation]) -> Iterator[Observation]:
        """``said``: by this piece of the stream."""
        is_old = self._left > 0
        self._left -= len(data)
        for observation in said:
            if is_old and isinstance(observation, WindowsSeen):
                yield msgspec.structs.replace(observation, at=self._at)
            else:
                yield observation


def _size(stem: Stem) -> int:
    try:
        return stem.stream.stat().st_size
    except OSError:
        return 0
