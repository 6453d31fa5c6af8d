"""Whether a batch that was ended and driven again kept every promise.

What ran is counted from what the children left, not from what the driver says of them: the agent's
own count of its starts, its transcripts, the shims' exit records.  The journal is held against it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.events import Entry, RetryScheduled, StageDispatched, StageRecorded
from orchestrator.core.fold import replay
from orchestrator.core.model import ResultStatus
from orchestrator.core.state import RunState
from orchestrator.journal.read import read_entries
from tests.e2e.cli_process import git, lines
from tests.killpoints.batch import LIMIT, MODEL_STAGES, RUN, STAGES, Batch

Key = tuple[str, str, int]
"""Task, stage, attempt."""

RESULT = re.compile(rb'"type": ?"(stage_)?result"')
CENT_PARTS = 6
"""Decimals that the ledger is compared to."""


@dataclass
class Verdict:
    violations: list[str] = field(default_factory=list)
    rerun_finished: int = 0
    """Starts of what was recorded before."""
    rerun_in_flight: int = 0
    """Starts of what was under way, or had ended unrecorded."""
    survivors: int = 0
    taken_up: Counter[str] = field(default_factory=Counter)
    """How recovery took up what it found: ``adopted``, ``harvested``, …"""

    def hold(self, what: str, *, is_so: bool) -> None:
        if not is_so:
            self.violations.append(what)


class Span(NamedTuple):
    task: str
    began: float
    ended: float


def judge(batch: Batch, status: int) -> Verdict:
    """``status``: of the last driver.  Everything must have come to its end, once."""
    verdict = Verdict()
    verdict.hold(f"the last driver ended with {status}", is_so=status == 0)
    verdict.hold("processes are left", is_so=batch.all_gone())
    verdict.survivors = len(batch.processes())
    try:
        entries = list(read_entries(batch.store.events_path))
        state = replay(entries)
    except OrchestratorError as error:
        verdict.violations.append(f"the journal does not replay: {error}")
        return verdict
    expected = {(str(task), stage, 1) for task in state.tasks for stage in STAGES}
    _hold_whole(verdict, batch)
    _hold_audits(verdict, batch)
    _hold_records(verdict, entries, expected)
    _hold_starts(verdict, batch, entries, expected)
    _hold_times(verdict, batch, entries, state)
    _hold_ledger(verdict, batch, entries, state)
    _hold_work(verdict, batch, state)
    return verdict


def _hold_whole(verdict: Verdict, batch: Batch) -> None:
    """The file as bytes: every line readable, numbered without gaps, nothing torn at the end."""
    data = batch.store.events_path.read_bytes()
    numbers = [line["seq"] for line in _readable(batch.store.events_path)]
    verdict.hold("the journal has gaps", is_so=numbers == list(range(1, len(numbers) + 1)))
    verdict.hold("the journal ends torn", is_so=data.endswith(b"\n"))
    said = batch.store.log_path.read_text("utf-8", "replace")
    verdict.hold("a user saw a traceback", is_so="Traceback" not in said)


def _hold_audits(verdict: Verdict, batch: Batch) -> None:
    status = batch.home.json("--run", RUN, "status")
    audit = status["events_audit"]
    verdict.hold(f"the run is {status['run_state']}", is_so=status["run_state"] == "completed")
    verdict.hold(f"the events' audit: {audit}", is_so=audit["clean"])
    verdict.hold("the lanes' audit is not clean", is_so=status["lane_audit"]["clean"])
    verdict.hold(
        f"{audit['dispatched']} dispatched, {audit['recorded']} recorded",
        is_so=audit["dispatched"] == audit["recorded"] and audit["outstanding"] == 0,
    )
    verdict.hold("attempts were spent", is_so=audit["attempts_spent"] == 0)
    verdict.taken_up.update(audit["reclaimed_by"])


def _hold_records(verdict: Verdict, entries: list[Entry], expected: set[Key]) -> None:
    """Nothing lost, nothing recorded twice, no attempt but the first."""
    succeeded: Counter[Key] = Counter()
    for event in (entry.event for entry in entries):
        if isinstance(event, StageRecorded) and event.status is ResultStatus.SUCCESS:
            succeeded[event.task_id, event.stage, event.attempt] += 1
        if isinstance(event, RetryScheduled):
            verdict.hold(
                f"{event.task_id}: {event.stage} spent an attempt: {event.reason}",
                is_so=not event.spends_attempt,
            )
    for key in sorted(expected | succeeded.keys()):
        is_right = succeeded[key] == (key in expected)
        verdict.hold(f"{key} was recorded {succeeded[key]} times", is_so=is_right)


def _hold_starts(verdict: Verdict, batch: Batch, entries: list[Entry], expected: set[Key]) -> None:
    started = _agent_starts(batch) + _step_starts(batch)
    intended, recorded = _intended(entries)
    for key in sorted(expected | started.keys()):
        again = max(started[key] - 1, 0)
        finished = min(again, recorded[key])
        verdict.rerun_finished += finished
        verdict.rerun_in_flight += again - finished
        verdict.hold(f"{key} was started {started[key]} times", is_so=started[key] == 1)
    verdict.hold("not everything came to its end", is_so=_finished(batch) >= expected)
    verdict.hold("something ran that no event intended", is_so=started.keys() <= intended)


def _intended(entries: Iterable[Entry]) -> tuple[set[Key], Counter[Key]]:
    """What was dispatched, and how often after its success was recorded."""
    intended: set[Key] = set()
    succeeded: set[Key] = set()
    again: Counter[Key] = Counter()
    for event in (entry.event for entry in entries):
        if isinstance(event, StageDispatched):
            key = (event.task_id, event.stage, event.attempt)
            intended.add(key)
            again[key] += key in succeeded
        elif isinstance(event, StageRecorded) and event.status is ResultStatus.SUCCESS:
            succeeded.add((event.task_id, event.stage, event.attempt))
    return intended, again


def _agent_starts(batch: Batch) -> Counter[Key]:
    """As the agent counted them, each line one start."""
    starts: Counter[Key] = Counter()
    for path in (batch.agent_home / "rehearsal").glob("*.starts"):
        for line in path.read_text().splitlines():
            task, stage, attempt = line.split()
            starts[task, stage, int(attempt)] += 1
    return starts


def _step_starts(batch: Batch) -> Counter[Key]:
    """A child that came to nothing before it was itself leaves neither identity nor output."""
    starts: Counter[Key] = Counter()
    for stem, key in _stems(batch):
        stream = stem.with_name(stem.name + ".stream.jsonl")
        was_started = stem.with_name(stem.name + ".shim.json").exists() or stream.stat().st_size > 0
        starts[key] += key[1] not in MODEL_STAGES and was_started
    return starts


def _finished(batch: Batch) -> set[Key]:
    """What had a start whose child said its result."""
    return {
        key
        for stem, key in _stems(batch)
        if RESULT.search(stem.with_name(stem.name + ".stream.jsonl").read_bytes())
    }


def _stems(batch: Batch) -> Iterator[tuple[Path, Key]]:
    for stream in sorted(batch.store.stages_dir.glob("*/*.stream.jsonl")):
        stem = stream.with_name(stream.name.removesuffix(".stream.jsonl"))
        stage, _, numbers = stem.name.partition("-attempt")
        yield stem, (stream.parent.name, stage, int(numbers.split(".")[0]))


def _hold_times(verdict: Verdict, batch: Batch, entries: list[Entry], state: RunState) -> None:
    """No two children of a task at once, no more than the limit, none before what it needs."""
    known = list(spans(batch, entries))
    verdict.violations += overlaps(known)
    verdict.hold("the limit was exceeded", is_so=_most_at_once(known) <= LIMIT)
    for task in state.tasks.values():
        began = min((span.began for span in known if span.task == task.id), default=0.0)
        for needed in task.depends_on:
            last = max((span.ended for span in known if span.task == needed), default=0.0)
            verdict.hold(f"{task.id} began before {needed} had ended", is_so=began >= last)


def overlaps(known: Iterable[Span]) -> Iterator[str]:
    ordered = sorted(known)
    for one, other in pairwise(ordered):
        if one.task == other.task and other.began < one.ended:
            yield f"two children of {one.task} at once"


def spans(batch: Batch, entries: Iterable[Entry]) -> Iterator[Span]:
    """From the exit records; where a shim was killed, from what was recorded in its place."""
    recorded: dict[tuple[str, str], tuple[float, float]] = {}
    for event in (entry.event for entry in entries):
        if isinstance(event, StageRecorded):
            dispatch = "" if event.dispatch == 1 else f".d{event.dispatch}"
            name = f"{event.stage}-attempt{event.attempt}{dispatch}"
            recorded[event.task_id, name] = (event.started_at, event.ended_at)
    for stem, (task, _, _) in _stems(batch):
        path = stem.with_name(stem.name + ".exit.json")
        if path.exists():
            record = json.loads(path.read_text())
            yield Span(task, record["started_at"], record["ended_at"])
        elif all(recorded.get((task, stem.name), (0.0, 0.0))):
            yield Span(task, *recorded[task, stem.name])


def _most_at_once(spans: Iterable[Span]) -> int:
    moments = sorted([(span.ended, -1) for span in spans] + [(span.began, 1) for span in spans])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def _hold_ledger(verdict: Verdict, batch: Batch, entries: Iterable[Entry], state: RunState) -> None:
    """The run's total, its rows, its records and the sessions' own sums are one sum."""
    # No cost is known of a dispatch whose shim was killed before there was a child.
    rows = [row["cost_usd"] or 0.0 for row in lines(batch.store.costs_path)]
    records = [
        entry.event.cost.cost_usd
        for entry in entries
        if isinstance(entry.event, StageRecorded) and entry.event.cost is not None
    ]
    sums = {
        "total": state.totals.cost_usd,
        "rows": sum(rows),
        "records": sum(records),
        "sessions": sum(_charges(batch)),
    }
    is_one = len({round(value, CENT_PARTS) for value in sums.values()}) == 1
    verdict.hold(f"the ledger does not add up: {sums}", is_so=is_one)
    verdict.hold(f"{len(rows)} rows of cost", is_so=len(rows) == state.audit.calls)


def _charges(batch: Batch) -> Iterator[float]:
    for path in (batch.agent_home / "projects").glob("*/*.jsonl"):
        for record in _readable(path):
            if record.get("type") == "assistant":
                yield record["rehearsalUsage"][-1]


def _readable(path: Path) -> Iterator[dict[str, Any]]:
    """A line that a kill has torn is left out."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _hold_work(verdict: Verdict, batch: Batch, state: RunState) -> None:
    """Every task's change is on its branch, and every recorded stage has its file."""
    for task in state.tasks.values():
        needed = [str(task.id), *map(str, task.depends_on)]
        there = git(batch.home.repository, "ls-tree", "-r", "--name-only", task.branch)
        for name in needed:
            is_there = f"REHEARSAL-{name}.txt" in there.splitlines()
            verdict.hold(f"{name}'s change is not on {task.branch}", is_so=is_there)
        files = list((batch.store.stages_dir / task.slug).glob("[0-9][0-9]-*.json"))
        is_whole = len(files) == task.records and all(json.loads(f.read_text()) for f in files)
        verdict.hold(f"the records of {task.id} are not whole", is_so=is_whole)
