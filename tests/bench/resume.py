"""How long a driver takes to know its run again: its journal read and folded, invariants checked.

The limit is msgspec alone: each line of the same file decoded as an event, and forgotten.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from orchestrator.core.events import (
    KnownEvent,
    RunFinalized,
    StageDispatched,
    StageRecorded,
    TaskAdded,
    Unknown,
)
from orchestrator.core.fold import replay, undisturbed
from orchestrator.core.model import TaskId, WorkItemId
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.read import read_entries

GOAL_S_PER_100_000 = 0.5
RUNS = 5
COMMIT_EVENTS = 4
"""As the driver writes them, with as many children at once."""


def report(journal: Path) -> Iterator[str]:
    """CPU time, the least of a few runs: what others do on the machine counts less in it."""
    events = sum(1 for _ in read_entries(journal))
    limit_s = _took_s(lambda: _decode_alone(journal))
    yield f"limit: {events:,} events decoded by msgspec alone: {limit_s:.2f} s of CPU"
    took_s = _took_s(lambda: replay(read_entries(journal)))
    goal_s = GOAL_S_PER_100_000 * events / 100_000
    yield (
        f"{events:,} events read and folded: {took_s:.2f} s of CPU (goal {goal_s:.2f}), "
        f"{took_s / limit_s:.1f} x the limit"
    )


def lengthened(journal: Path, times: int) -> Path:
    """Beside it, a journal in which its tasks are done so many times, under other names."""
    longer = journal.with_name(f"events-{times}.jsonl")
    entries = list(read_entries(journal))
    events = (
        event for round_ in range(times) for entry in entries for event in _of(entry.event, round_)
    )
    seq = 0
    with longer.open("wb") as file:
        while commit := list(itertools.islice(events, COMMIT_EVENTS)):
            data, _ = encode_commit(
                commit, after_seq=seq, run_id=entries[0].run_id, now=time.time()
            )
            file.write(data)
            seq += len(commit)
    return longer


def _of(event: KnownEvent | Unknown, round_: int) -> Iterator[KnownEvent]:
    """The event as the round has it: none of those of the run but in the first."""
    match event:
        case TaskAdded():
            slug = f"{event.slug}-{round_}"
            yield msgspec.structs.replace(event, task_id=TaskId(slug), slug=slug)
        case StageDispatched() | StageRecorded():
            yield msgspec.structs.replace(
                event,
                task_id=TaskId(f"{event.task_id}-{round_}"),
                work_item_id=WorkItemId(f"{event.work_item_id}-{round_}"),
            )
        case RunFinalized() | Unknown():
            pass
        case _ if round_ == 0:
            yield event
        case _:
            pass


def _decode_alone(journal: Path) -> None:
    decode = msgspec.json.Decoder(KnownEvent).decode
    with journal.open("rb") as file, undisturbed():
        for line in file:
            decode(line)


def _took_s(act: Callable[[], object]) -> float:
    took = []
    for _ in range(RUNS):
        begin = time.process_time()
        act()
        took.append(time.process_time() - begin)
    return min(took)
