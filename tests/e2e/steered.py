"""Put events into a run's journal, as a driver or a command would."""

import time
from pathlib import Path

import trio

from orchestrator.core.events import KnownEvent
from orchestrator.journal.disk import open_journal
from orchestrator.journal.live import LiveRun


def commit(store: Path, *events: KnownEvent) -> None:
    async def append() -> None:
        run = await LiveRun.open(open_journal(store / "events.jsonl", store.name))
        await run.commit(lambda _: events, now=time.time())

    trio.run(append)
