"""What a driver learns and expects before it begins: two events at most, and never a hindrance."""

from pathlib import Path

import pytest

from drivers.headless import foresight
from drivers.headless.foresight import FUTURES_AT_START_MAX, look_ahead
from drivers.headless.outside import Invocation
from orchestrator.core.events import Entry, KnownEvent, RunCreated
from orchestrator.core.history import Sample
from orchestrator.core.model import Outcome, Stage
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.journal.live import LiveRun
from orchestrator.journal.past import write_history
from orchestrator.journal.store import RunStore
from tests.fakes.journal import MemoryJournal
from tests.unit.cli.runs import PROJECT, added, run_of

NOW = 1_000.0


class Told:
    """An Audience."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def changed(self) -> None:
        raise AssertionError

    def committed(self, state: RunState, entry: Entry) -> None:
        raise AssertionError

    def say(self, event: str, **values: object) -> None:
        self.said.append(event)


async def run_with(*events: KnownEvent) -> LiveRun:
    journal = MemoryJournal()
    await journal.commit(0, [RunCreated(settings=Settings(), project=PROJECT), *events], now=1.0)
    reader = MemoryJournal(journal.log)
    return await LiveRun.open(reader)


def store_beside_another(root: Path) -> RunStore:
    """This run's; of another run, one that has taught something."""
    other, mine = RunStore(root / "other"), RunStore(root / "r1")
    for store in (other, mine):
        store.path.mkdir(parents=True)
    state = run_of(added("T1"))
    state.run_id = "other"
    state.history.add(Sample(stage=Stage.TEST, outcome=Outcome.ADVANCED, duration_s=7.0, task="T1"))
    write_history(other, state)
    return mine


async def test_what_was_learned_is_an_event_and_so_is_what_is_expected(tmp_path: Path) -> None:
    run, told = await run_with(added("T1")), Told()
    await look_ahead(run, store_beside_another(tmp_path), Invocation(), told, now=NOW)
    assert run.state.seq == 4
    assert run.state.pace_s == {(Stage.TEST, ""): 7.0}
    assert run.state.forecast is not None
    assert 1 < run.state.forecast.samples <= FUTURES_AT_START_MAX
    assert told.said == ["forecast"]


async def test_the_next_driver_learns_nothing_new_and_expects_anew(tmp_path: Path) -> None:
    run, told = await run_with(added("T1")), Told()
    store = store_beside_another(tmp_path)
    await look_ahead(run, store, Invocation(), told, now=NOW)
    first = run.state.forecast
    await look_ahead(run, store, Invocation(), told, now=NOW + 60.0)
    assert run.state.seq == 5
    assert run.state.forecast == first
    assert run.state.outlook is not None
    assert run.state.outlook.at == NOW + 60.0


async def test_a_run_too_large_is_not_kept_waiting(tmp_path: Path) -> None:
    run, told = await run_with(*(added(f"T{i}") for i in range(300))), Told()
    await look_ahead(run, RunStore(tmp_path), Invocation(), told, now=NOW)
    assert run.state.forecast is None
    (said,) = told.said
    assert "no forecast at the start" in said


async def test_a_run_whose_futures_take_too_long_is_not_kept_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, told = await run_with(added("T1")), Told()
    monkeypatch.setattr(foresight, "CPU_S_MAX", -1.0)
    await look_ahead(run, RunStore(tmp_path), Invocation(), told, now=NOW)
    assert run.state.forecast is None


async def test_a_fault_in_it_is_said_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    run, told = await run_with(added("T1")), Told()
    monkeypatch.setattr(foresight, "foresee", broken)
    await look_ahead(run, RunStore(tmp_path), Invocation(), told, now=NOW)
    assert told.said == ["no forecast was made"]
    assert run.state.seq == 2
