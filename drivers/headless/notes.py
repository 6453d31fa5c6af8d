"""What is worth an event but not a sync of its own: it goes out with the next commit.

Invariant: nothing depends on a note. Recovery finds children by their files, and
windows are told again by the next stream.
"""

from collections.abc import Collection

from drivers.headless.messages import Observed
from orchestrator.core.events import ChildStarted, KnownEvent, WindowObserved
from orchestrator.core.standing import is_news
from orchestrator.core.state import RunState
from orchestrator.core.windows import heard, is_closed
from orchestrator.ports.execution import Started, WindowsSeen


class Notes:
    def __init__(self, account: str = "") -> None:
        self._account = account
        self._notes: list[ChildStarted | WindowObserved] = []

    def __bool__(self) -> bool:
        return bool(self._notes)

    def take(self, message: Observed, state: RunState, now: float) -> None:
        out = message.out
        match message.observation:
            case Started(shim=shim, child=child, started_at=started_at):
                lease = state.in_flight.get(out.task_id)
                started = ChildStarted(
                    task_id=out.task_id,
                    work_item_id=out.work_item_id,
                    shim=shim,
                    child=child,
                    host=lease.host if lease else None,
                    started_at=started_at,
                )
                self._notes.append(started)
            case WindowsSeen(windows=windows, at=at):
                seen_at = now if at is None else at
                dated = (heard(window, seen_at) for window in windows)
                new = tuple(w for w in dated if is_news(w, state.windows.get(w.name)))
                if new:
                    self._notes.append(WindowObserved(windows=new, account=self._account))
            case _:
                pass

    def are_urgent(self, state: RunState) -> bool:
        """One of them bars what might start this very moment."""
        return any(
            is_closed(window, state.settings)
            for note in self._notes
            if isinstance(note, WindowObserved)
            for window in note.windows
        )

    def live(self, state: RunState) -> list[KnownEvent]:
        """A note about a dispatch that is not out any more would break the fold: left out."""
        live: Collection[str] = {lease.work_item_id for lease in state.in_flight.values()}
        return [
            note
            for note in self._notes
            if isinstance(note, WindowObserved) or note.work_item_id in live
        ]

    def clear(self) -> None:
        self._notes.clear()
