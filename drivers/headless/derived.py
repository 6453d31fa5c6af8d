"""The files that are derived from the journal, kept up while the run is driven."""

from orchestrator.core.events import Entry
from orchestrator.core.state import RunState
from orchestrator.journal.file import FileJournal
from orchestrator.journal.past import write_history
from orchestrator.journal.projections import project
from orchestrator.journal.snapshot import Snapshots
from orchestrator.journal.store import RunStore


class Derived:
    def __init__(self, store: RunStore, journal: FileJournal) -> None:
        self._store = store
        self._journal = journal
        self._snapshots = Snapshots(store)
        self.is_incomplete = False

    def committed(self, state: RunState, entry: Entry) -> None:
        """Raises OSError; what is missing then is mended at this driver's end, or by the next."""
        try:
            project(self._store, state, entry)
        except OSError:
            self.is_incomplete = True
            raise
        if self._snapshots.is_due(state):
            self._snapshots.write(state, self._journal.position)
            write_history(self._store, state)

    def close(self, state: RunState) -> None:
        """At the driver's end: what was learned, for later runs.  Raises OSError."""
        write_history(self._store, state)
