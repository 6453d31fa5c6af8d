"""What a run learned is there for the project's later runs, and harms none of them."""

import os
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.events import HistoryLoaded
from orchestrator.core.history import SAMPLES_MAX, Sample
from orchestrator.core.model import Outcome, Stage
from orchestrator.core.settings import AgentSettings, Project
from orchestrator.core.state import RunState
from orchestrator.journal.past import RUNS_MAX, is_news, read_past, write_history
from orchestrator.journal.store import RunStore
from tests.unit.cli.runs import PROJECT, added, run_of, then

REHEARSED = msgspec.structs.replace(PROJECT, agent=AgentSettings(command=("rehearsal-agent",)))
ELSEWHERE = msgspec.structs.replace(PROJECT, root="/other")


def state_of(*took_s: float, run_id: str = "r0", project: Project = PROJECT) -> RunState:
    state = run_of(added("T1"))
    state.run_id, state.project = run_id, project
    for each in took_s:
        state.history.add(
            Sample(stage=Stage.TEST, outcome=Outcome.ADVANCED, duration_s=each, task="T1")
        )
    return state


def kept(path: Path, state: RunState, *, at: float) -> RunStore:
    store = RunStore(path)
    path.mkdir(parents=True)
    write_history(store, state)
    os.utime(store.history_path, (at, at))
    return store


def seconds(store: RunStore, project: Project = PROJECT) -> list[float]:
    return [sample.duration_s for sample in read_past(store, project).samples]


@pytest.fixture
def mine(tmp_path: Path) -> RunStore:
    """A run that is about to begin, in a pinned root."""
    store = RunStore(tmp_path / "mine")
    store.path.mkdir()
    return store


def test_other_runs_are_read_oldest_first(mine: RunStore) -> None:
    kept(mine.path.parent / "b", state_of(3.0), at=200.0)
    kept(mine.path.parent / "a", state_of(1.0, 2.0), at=100.0)
    past = read_past(mine, PROJECT)
    assert [s.duration_s for s in past.samples] == [1.0, 2.0, 3.0]
    assert past.runs == 2
    assert past.unread == ()


def test_tasks_of_two_runs_are_two_tasks(mine: RunStore) -> None:
    kept(mine.path.parent / "a", state_of(1.0, run_id="a"), at=100.0)
    kept(mine.path.parent / "b", state_of(1.0, run_id="b"), at=200.0)
    assert [s.task for s in read_past(mine, PROJECT).samples] == ["a/T1", "b/T1"]


def test_runs_of_other_days_are_the_projects_too(tmp_path: Path) -> None:
    mine = RunStore(tmp_path / "sample" / "2026-03-02" / "mine")
    mine.path.mkdir(parents=True)
    kept(tmp_path / "sample" / "2026-03-01" / "a", state_of(1.0), at=100.0)
    kept(tmp_path / "sample" / "2026-03-02" / "b", state_of(2.0), at=200.0)
    assert seconds(mine) == [1.0, 2.0]


def test_its_own_is_not_its_past(mine: RunStore) -> None:
    write_history(mine, state_of(1.0))
    assert seconds(mine) == []


@pytest.mark.parametrize("other", [REHEARSED, ELSEWHERE])
def test_a_rehearsal_or_another_repository_teaches_nothing(mine: RunStore, other: Project) -> None:
    kept(mine.path.parent / "a", state_of(1.0, project=other), at=100.0)
    assert seconds(mine) == []
    assert seconds(mine, other) == [1.0]


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b'{"v":2,"samples":"as nobody knows them"}'),
        lambda path: path.write_bytes(b"[]"),
        lambda path: path.write_bytes(b"\xff" * 100),
        lambda path: path.write_bytes(path.read_bytes().ljust(5_000_000)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["torn", "empty", "newer", "no object", "no text", "huge", "a directory"],
)
def test_what_cannot_be_read_is_passed_over_and_named(mine: RunStore, harm: object) -> None:
    kept(mine.path.parent / "a", state_of(1.0), at=100.0)
    store = kept(mine.path.parent / "b", state_of(2.0), at=200.0)
    assert callable(harm)
    harm(store.history_path)
    past = read_past(mine, PROJECT)
    assert [s.duration_s for s in past.samples] == [1.0]
    assert [line.split(": ")[0] for line in past.unread] == [str(store.history_path)]


def test_it_is_bounded_by_runs_and_by_kind(mine: RunStore) -> None:
    for number in range(RUNS_MAX + 5):
        took = [float(number)] * 10
        kept(mine.path.parent / f"r{number:02}", state_of(*took), at=float(number))
    past = read_past(mine, PROJECT)
    assert past.runs == RUNS_MAX
    assert len(past.samples) == SAMPLES_MAX
    assert past.samples[-1].duration_s == float(RUNS_MAX + 4)


def test_it_is_loaded_once(mine: RunStore) -> None:
    kept(mine.path.parent / "a", state_of(1.0, 2.0), at=100.0)
    past = read_past(mine, PROJECT)
    state = state_of(5.0)
    assert is_news(past, state.history)
    then(state, [HistoryLoaded(samples=past.samples, runs=past.runs)])
    assert not is_news(past, state.history)
    for _ in range(SAMPLES_MAX - 1):  # its own take the place of the past's
        state.history.add(past.samples[0])
    assert not is_news(past, state.history)


def test_nothing_is_written_of_nothing(mine: RunStore) -> None:
    write_history(mine, state_of())
    assert not mine.history_path.exists()


def test_no_file_is_left_where_it_cannot_be_written(mine: RunStore) -> None:
    mine.history_path.mkdir()
    with pytest.raises(OSError):  # noqa: PT011
        write_history(mine, state_of(1.0))
    assert os.listdir(mine.path) == ["history.json"]
