"""The derived files: one row, one file per recorded dispatch; made again where they are gone."""

import json
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.events import Entry, KnownEvent
from orchestrator.core.fold import fold
from orchestrator.core.model import Outcome, Stage
from orchestrator.core.state import RunState
from orchestrator.journal.codec import encode_commit
from orchestrator.journal.projections import CostRow, project, repair
from orchestrator.journal.store import RunStore
from tests.unit.journal.events import NOW, added, created, dispatched, recorded


def a_run() -> list[Entry]:
    events: list[KnownEvent] = [created(), added("#1"), added("T2")]
    for task in ("#1", "T2"):
        for stage in Stage:
            last = Outcome.COMPLETED if stage is Stage.REVIEW else Outcome.ADVANCED
            events += [dispatched(task, stage), recorded(task, stage, outcome=last)]
    return list(encode_commit(events, after_seq=0, run_id="r1", now=NOW)[1])


def driven(store: RunStore, entries: list[Entry]) -> RunState:
    state: RunState | None = None
    for entry in entries:
        state = fold(state, entry)
        project(store, state, entry)
    assert state is not None
    return state


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "r1")


def test_there_is_a_row_for_each_model_call(store: RunStore) -> None:
    store.path.mkdir()
    driven(store, a_run())
    rows = [json.loads(line) for line in store.costs_path.read_text().splitlines()]
    assert [(row["task_id"], row["stage"]) for row in rows] == [
        (task, stage) for task in ("#1", "T2") for stage in ("scope", "implement", "review")
    ]
    assert rows[0] == {
        "v": 1,
        "ts": "2026-11-30T18:00:00.123456Z",
        "run_id": "r1",
        "task_id": "#1",
        "stage": "scope",
        "attempt": 1,
        "dispatch": 1,
        "work_item_id": "#1/scope/a1/d1",
        "lane": "headless:claude",
        "provider": "claude",
        "model": "sonnet",
        "session_id": "6f1c1f8e-8b1e-4f1e-9d0a-3f6f3f6f3f6f",
        "input_tokens": 10,
        "output_tokens": 2000,
        "cache_read_tokens": 90_000,
        "cache_write_tokens": 10_000,
        "cost_usd": 0.25,
        "session_total_usd": 0.5,
        "metered": True,
        "duration_s": 12.0,
        "status": "success",
    }


def test_a_call_of_unknown_cost_has_its_row(store: RunStore) -> None:
    store.path.mkdir()
    lost = msgspec.structs.replace(recorded("#1", Stage.SCOPE), cost=None)
    events: list[KnownEvent] = [
        *(e.event for e in a_run()[:5]),  # type: ignore[list-item]
        dispatched("#1", Stage.SCOPE),
        lost,
    ]
    entries = list(encode_commit(events, after_seq=0, run_id="r1", now=NOW)[1])
    driven(store, entries)
    row = msgspec.json.decode(store.costs_path.read_bytes(), type=CostRow)
    assert (row.cost_usd, row.metered, row.output_tokens) == (None, False, 0)


def test_each_recorded_dispatch_has_a_numbered_file(store: RunStore) -> None:
    stem = store.stem("1", Stage.SCOPE, 1, 1)
    stem.parent.mkdir(parents=True)
    Path(f"{stem}.work.json").write_text('{"id":"#1/scope/a1/d1","content_hash":"abc"}')
    driven(store, a_run())
    names = sorted(p.name for p in (store.stages_dir / "1").glob("[0-9]*.json"))
    assert names == [f"{n:02d}-{stage}.json" for n, stage in enumerate(Stage, 1)]
    record = json.loads((store.stages_dir / "1" / "02-scope.json").read_text())
    assert record["work_item"] == {"id": "#1/scope/a1/d1", "content_hash": "abc"}
    assert record["prompt_file"] == "scope-attempt1.prompt.txt"
    assert record["result"]["content_hash"] == "abc"
    assert record["result"]["structured_output"] == {"summary": "did it"}
    assert (record["evidence"], record["cost"]["cost_usd"]) == ({"exit": 0}, 0.25)


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: s.costs_path.unlink(),
        lambda s: s.costs_path.write_bytes(s.costs_path.read_bytes()[:-7]),
        lambda s: s.costs_path.write_bytes(s.costs_path.read_bytes() * 2),
        lambda s: s.costs_path.write_bytes(b"\0\0\n" + s.costs_path.read_bytes()),
        lambda s: (s.stages_dir / "1" / "02-scope.json").unlink(),
        lambda s: (s.stages_dir / "T2" / "06-review.json").write_bytes(b""),
        lambda s: [p.unlink() for p in s.path.rglob("*") if p.is_file()],
        lambda s: None,
    ],
)
def test_repair_makes_what_is_missing_or_torn(store: RunStore, harm: object) -> None:
    store.path.mkdir()
    entries = a_run()
    state = driven(store, entries)
    before = files(store.path)
    harm(store)  # type: ignore[operator]
    was_harmed = files(store.path) != before
    assert bool(repair(store, state, entries)) == was_harmed
    assert files(store.path) == before
    assert repair(store, state, iter(())) == 0


def test_repair_touches_nothing_else(store: RunStore) -> None:
    store.path.mkdir()
    entries = a_run()
    state = driven(store, entries)
    note = store.stages_dir / "1" / "a person's note.txt"
    note.write_text("keep")
    store.costs_path.unlink()
    repair(store, state, entries)
    assert note.read_text() == "keep"


def test_a_row_after_a_torn_one_is_on_its_own_line(store: RunStore) -> None:
    store.path.mkdir()
    store.costs_path.write_bytes(b'{"v":1,"ts":')
    driven(store, a_run())
    torn, *rows = store.costs_path.read_bytes().splitlines()
    assert torn == b'{"v":1,"ts":'
    assert len([msgspec.json.decode(row, type=CostRow) for row in rows]) == 6
