"""What the children of a run do, read from their raw output as it grows."""

from collections.abc import Iterator
from pathlib import Path

from drivers.cli.activity import readable
from drivers.cli.onlooker import GrowingFile
from orchestrator.core.events import StageRecorded
from orchestrator.core.model import Stage, TaskId, WorkItemId
from orchestrator.core.state import RunState
from orchestrator.journal.store import RunStore

STARTS = ("", ".s2")
"""A dispatch may be started a second time; then there is a second file."""


class Doings:
    """Each line is told once, with the dispatch that it is of."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._files: dict[WorkItemId, tuple[GrowingFile, ...]] = {}
        self.last: dict[TaskId, str] = {}

    def under_way(self, state: RunState) -> Iterator[tuple[TaskId, str]]:
        for lease in list(state.in_flight.values()):
            for text in self._new(
                state, lease.work_item_id, lease.task_id, lease.stage, lease.attempt, lease.dispatch
            ):
                yield lease.task_id, text

    def rest_of(self, state: RunState, event: StageRecorded) -> Iterator[tuple[TaskId, str]]:
        """What it did since, and was under way when this began; nothing of what ended before."""
        for text in self._new(
            state, event.work_item_id, event.task_id, event.stage, event.attempt, event.dispatch
        ):
            yield event.task_id, text
        self._files.pop(event.work_item_id, None)

    def _new(
        self,
        state: RunState,
        work_item: WorkItemId,
        task_id: TaskId,
        stage: Stage,
        attempt: int,
        dispatch: int,
    ) -> Iterator[str]:
        if work_item not in self._files:
            stem = self._store.stem(state.tasks[task_id].slug, stage, attempt, dispatch)
            self._files[work_item] = tuple(
                GrowingFile(Path(f"{stem}{start}.stream.jsonl")) for start in STARTS
            )
        for file in self._files[work_item]:
            for line in file.new_lines():
                for text in readable(line):
                    self.last[task_id] = text
                    yield text
