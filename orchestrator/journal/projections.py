"""The files derived from the journal: ``stage-costs.jsonl`` and ``stages/<task>/NN-<stage>.json``.

Each row and file belongs to one recorded dispatch and can be made again from the
journal, so writing one is never synced and never fails the run; repair() at the start
makes what is missing or torn.  Invariant: nothing here is read back as truth.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from orchestrator.core.events import Entry, StageRecorded, TaskAdded
from orchestrator.core.model import (
    CallCost,
    Cause,
    Checkpoint,
    ChildExit,
    Outcome,
    ResultStatus,
    SessionId,
    Stage,
    StageResult,
    TaskId,
    WorkItemId,
)
from orchestrator.core.state import RunState
from orchestrator.given_file import read_file
from orchestrator.journal.codec import timestamp
from orchestrator.journal.store import RunStore

VERSION = 1


class CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model call: a line of ``stage-costs.jsonl``."""

    v: int = VERSION
    ts: str
    run_id: str
    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    work_item_id: WorkItemId
    lane: str
    provider: str
    model: str
    session_id: SessionId | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    """This call's own; null where it ended before anything was known of its cost."""
    session_total_usd: float | None
    """As the client reported it."""
    metered: bool
    duration_s: float
    status: ResultStatus


class StageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``NN-<stage>.json``: one recorded dispatch, what was asked and what came back."""

    v: int = VERSION
    seq: int
    """Of its ``stage_recorded`` in the journal."""
    ts: str
    run_id: str
    task_id: TaskId
    stage: Stage
    attempt: int
    dispatch: int
    work_item: dict[str, Any] | None
    """Without its prompt, which is in ``prompt_file``; null where its file is gone."""
    prompt_file: str
    """Beside this file."""
    result: StageResult
    cause: Cause | None
    outcome: Outcome
    evidence: dict[str, Any]
    cost: CallCost | None
    checkpoint: Checkpoint | None
    exit: ChildExit
    started_at: float
    ended_at: float


def project(store: RunStore, state: RunState, entry: Entry) -> None:
    """Write what a ``stage_recorded`` of the driver's own adds; nothing for other events.

    ``state`` is the one it was folded into.  Raises OSError.
    """
    if isinstance(entry.event, StageRecorded):
        task = state.tasks[entry.event.task_id]
        _write_record(store, task.slug, task.records, entry, entry.event)
        if not entry.event.stage.is_deterministic:
            _append_line(store.costs_path, msgspec.json.encode(cost_row(entry, entry.event)))


def repair(store: RunStore, state: RunState, entries: Iterable[Entry]) -> int:
    """Make what is missing or torn, from the journal; returns how many files were written.

    ``entries``: the whole journal up to ``state``; not looked at where nothing is wrong.
    Raises OSError.
    """
    costs_are_whole = _has_rows(store.costs_path, state.audit.calls)
    incomplete = {
        task.id
        for task in state.tasks.values()
        if task.records and not _has_records(store.stages_dir / task.slug, task.records)
    }
    if costs_are_whole and not incomplete:
        return 0
    slugs: dict[TaskId, str] = {}
    numbers: Counter[TaskId] = Counter()
    rows: list[bytes] = []
    written = 0
    for entry in entries:
        event = entry.event
        if isinstance(event, TaskAdded):
            slugs[event.task_id] = event.slug
        elif isinstance(event, StageRecorded):
            numbers[event.task_id] += 1
            slug, number = slugs[event.task_id], numbers[event.task_id]
            if not event.stage.is_deterministic:
                rows.append(msgspec.json.encode(cost_row(entry, event)))
            path = store.record_path(slug, number, event.stage)
            if event.task_id in incomplete and not _is_whole(path):
                _write_record(store, slug, number, entry, event)
                written += 1
    if not costs_are_whole:
        _write_whole(store.costs_path, b"".join(row + b"\n" for row in rows))
        written += 1
    return written


def cost_row(entry: Entry, event: StageRecorded) -> CostRow:
    cost = event.cost
    spent = cost or CallCost(cost_usd=0.0, metered=False)
    return CostRow(
        ts=timestamp(entry.ts),
        run_id=entry.run_id,
        task_id=event.task_id,
        stage=event.stage,
        attempt=event.attempt,
        dispatch=event.dispatch,
        work_item_id=event.work_item_id,
        lane=event.lane_used,
        provider=event.lane_used.rpartition(":")[2],
        model=event.model,
        session_id=event.session_id,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
        cost_usd=None if cost is None else cost.cost_usd,
        session_total_usd=spent.session_total_usd,
        metered=spent.metered,
        duration_s=_duration_s(event),
        status=event.status,
    )


def _write_record(
    store: RunStore, slug: str, number: int, entry: Entry, event: StageRecorded
) -> None:
    stem = store.stem(slug, event.stage, event.attempt, event.dispatch)
    work = _read_object(stem.with_name(stem.name + ".work.json"))
    result = StageResult(
        work_item_id=event.work_item_id,
        content_hash=str((work or {}).get("content_hash", "")),
        run_id=entry.run_id,
        task_id=event.task_id,
        stage=event.stage,
        attempt=event.attempt,
        status=event.status,
        error=event.error or None,
        structured_output=event.output,
        session_id=event.session_id,
        usage=None if event.cost is None else _usage(event.cost),
        cost_usd=None if event.cost is None else event.cost.cost_usd,
        lane_used=event.lane_used,
        completed_at=timestamp(event.ended_at or entry.ts),
    )
    record = StageRecord(
        seq=entry.seq,
        ts=timestamp(entry.ts),
        run_id=entry.run_id,
        task_id=event.task_id,
        stage=event.stage,
        attempt=event.attempt,
        dispatch=event.dispatch,
        work_item=work,
        prompt_file=stem.name + ".prompt.txt",
        result=result,
        cause=event.cause,
        outcome=event.outcome,
        evidence=event.evidence,
        cost=event.cost,
        checkpoint=event.checkpoint,
        exit=event.exit,
        started_at=event.started_at,
        ended_at=event.ended_at,
    )
    path = store.record_path(slug, number, event.stage)
    _write_whole(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def _usage(cost: CallCost) -> dict[str, int]:
    return {
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "cache_read_tokens": cost.cache_read_tokens,
        "cache_write_tokens": cost.cache_write_tokens,
    }


def _duration_s(event: StageRecorded) -> float:
    if event.started_at and event.ended_at:
        return round(event.ended_at - event.started_at, 3)
    return event.exit.duration_s


def _read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object that another process wrote, or None: it was not synced either."""
    try:
        return msgspec.json.decode(read_file(path), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _append_line(path: Path, line: bytes) -> None:
    """In one write, on a line of its own also where the one before was torn."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" * is_torn + line + b"\n"
        written = os.write(descriptor, data)
    finally:
        os.close(descriptor)
    if written < len(data):
        raise OSError(f"{path}: the disk took {written} of {len(data)} bytes")


def _has_rows(path: Path, expected: int) -> bool:
    """Every line is a row, and there is one for each call."""
    decoder = msgspec.json.Decoder(CostRow)
    seen: set[WorkItemId] = set()
    lines = 0
    try:
        with path.open("rb") as file:
            for line in file:
                lines += 1
                seen.add(decoder.decode(line).work_item_id)
                if not line.endswith(b"\n"):
                    return False
    except FileNotFoundError:
        return expected == 0
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return lines == len(seen) == expected


def _has_records(directory: Path, expected: int) -> bool:
    try:
        with os.scandir(directory) as entries:
            whole = sum(
                1
                for entry in entries
                if entry.name[:1].isdigit()
                and entry.name.endswith(".json")
                and entry.stat().st_size
            )
    except FileNotFoundError:
        return False
    return whole == expected


def _is_whole(path: Path) -> bool:
    """It has its name only since it was written; a loss of power may have emptied it."""
    return _read_object(path) is not None
