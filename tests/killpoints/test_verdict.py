"""The judge itself: what is wrong with a batch is found, each wrong by its own words."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.killpoints.batch import TWO, Batch, new_batch, until
from tests.killpoints.verdict import judge

pytestmark = pytest.mark.slow

Spoil = Callable[[Batch], None]


def start_again(batch: Batch) -> None:
    """As if the agent had been asked twice."""
    starts = next((batch.agent_home / "rehearsal").glob("*-A.starts"))
    starts.write_text(starts.read_text() + "A implement 1\n")


def second_start(batch: Batch, *, later_s: float) -> None:
    """As if B's delivery had run a second time, begun ``later_s`` after the first."""
    stages = batch.store.stages_dir / "B"
    for name in ("stream.jsonl", "shim.json"):
        data = (stages / f"deliver-attempt1.{name}").read_bytes()
        (stages / f"deliver-attempt1.d2.{name}").write_bytes(data)
    record = json.loads((stages / "deliver-attempt1.exit.json").read_text())
    record |= {name: record[name] + later_s for name in ("started_at", "ended_at")}
    (stages / "deliver-attempt1.d2.exit.json").write_text(json.dumps(record))


def without_the_last_event(batch: Batch) -> None:
    *kept, _ = batch.store.events_path.read_bytes().splitlines(keepends=True)
    batch.store.events_path.write_bytes(b"".join(kept))


def torn(batch: Batch) -> None:
    with batch.store.events_path.open("ab") as journal:
        journal.write(b'{"v":1,"seq":')


def without_a_row(batch: Batch) -> None:
    *kept, _ = batch.store.costs_path.read_bytes().splitlines(keepends=True)
    batch.store.costs_path.write_bytes(b"".join(kept))


def without_a_record(batch: Batch) -> None:
    (batch.store.stages_dir / "A" / "02-implement.json").unlink()


SPOILT: tuple[tuple[Spoil, str], ...] = (
    (start_again, "('A', 'implement', 1) was started 2 times"),
    (lambda batch: second_start(batch, later_s=1e-4), "two children of B at once"),
    (lambda batch: second_start(batch, later_s=1e3), "('B', 'deliver', 1) was started 2 times"),
    (without_the_last_event, "the run is running"),
    (torn, "the journal ends torn"),
    (without_a_row, "the ledger does not add up"),
    (without_a_record, "the records of A are not whole"),
)


def test_a_batch_that_nobody_disturbs_is_in_order_and_each_thing_spoilt_is_found(
    tmp_path: Path,
) -> None:
    with new_batch(tmp_path / "batch", tasks=TWO) as batch:
        assert batch.drive() == 0
        assert judge(batch, 0).violations == []
        assert "the last driver ended with 5" in judge(batch, 5).violations
        for spoil, words in SPOILT:
            before = {path: path.read_bytes() for path in _files(batch)}
            spoil(batch)
            found = judge(batch, 0)
            assert any(words in violation for violation in found.violations), (words, found)
            assert found.rerun_finished == 0
            assert found.rerun_in_flight == ("started 2 times" in words or "at once" in words)
            for path in _files(batch) - before.keys():
                path.unlink()
            for path, data in before.items():
                path.write_bytes(data)
        assert judge(batch, 0).violations == []


def test_what_is_still_running_is_a_survivor_until_it_is_ended(tmp_path: Path) -> None:
    with new_batch(tmp_path / "batch", scenario="schema = 1\nduration_s = 60\n") as batch:
        driver = batch.start()
        starts = batch.agent_home / "rehearsal"
        assert until(lambda: bool(list(starts.glob("*.starts"))), bound_s=60.0)
        driver.kill()
        assert batch.processes()
    assert not batch.processes()


def _files(batch: Batch) -> set[Path]:
    found = [*batch.store.path.rglob("*"), *batch.agent_home.rglob("*")]
    return {path for path in found if path.is_file()}
