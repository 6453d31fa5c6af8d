"""The order of work: critical path first, by what stages are known to take."""

import statistics

from orchestrator.core.events import HistoryLoaded, KnownEvent, TaskAdded
from orchestrator.core.graph import best_first, is_live_ready
from orchestrator.core.history import Sample
from orchestrator.core.model import Outcome, Pipeline, Stage, TaskId
from orchestrator.core.state import RunState
from tests.bench.order import GOAL_WITH, GOAL_WITHOUT, random_batch, ratios
from tests.unit.cli.runs import added, run_of, then

BATCHES = [random_batch(seed) for seed in range(20)]


def sample(stage: Stage, took_s: float, model: str = "") -> Sample:
    name = "" if stage.is_deterministic else model or "sonnet"
    return Sample(stage=stage, model=name, outcome=Outcome.ADVANCED, duration_s=took_s)


def micro(task: str, *, model: str | None = None) -> TaskAdded:
    return TaskAdded(
        task_id=TaskId(task), slug=task, title=task, pipeline=Pipeline.MICRO, model=model
    )


def order(state: RunState) -> list[str]:
    return [item[3] for item in best_first(state.ready) if is_live_ready(state, item)]


def heights(state: RunState) -> dict[str, float]:
    return {str(task.id): task.height for task in state.tasks.values()}


PAST = HistoryLoaded(
    samples=(
        sample(Stage.INTAKE, 10.0),
        sample(Stage.SCOPE, 100.0),
        sample(Stage.IMPLEMENT, 400.0),
        sample(Stage.IMPLEMENT, 600.0),
        sample(Stage.IMPLEMENT, 2000.0, "opus"),
        sample(Stage.TEST, 50.0),
        sample(Stage.DELIVER, 5.0),
        sample(Stage.REVIEW, 35.0),
    ),
    runs=1,
)


def test_without_history_every_stage_counts_as_one() -> None:
    state = run_of(added("T1"), added("T2", "T1"), micro("T3"))
    assert heights(state) == {"T1": 12.0, "T2": 6.0, "T3": 4.0}


def test_what_was_learned_is_what_a_path_is_measured_by() -> None:
    state = run_of(added("T1"), added("T2", "T1"), micro("T3"), micro("T4", model="opus"), PAST)
    assert heights(state) == {"T1": 1400.0, "T2": 700.0, "T3": 550.0, "T4": 2050.0}
    assert order(state) == ["T4", "T1", "T3"]


def test_a_task_that_is_added_later_is_measured_alike() -> None:
    before = run_of(added("T1"), added("T2", "T1"), added("T3", "T2"), PAST)
    after = run_of(added("T1"), PAST, added("T2", "T1"), added("T3", "T2"))
    assert heights(before) == heights(after) == {"T1": 2100.0, "T2": 1400.0, "T3": 700.0}


def test_a_stage_that_is_new_counts_as_the_mean_of_those_that_are_known() -> None:
    known = HistoryLoaded(samples=(sample(Stage.INTAKE, 10.0), sample(Stage.IMPLEMENT, 30.0)))
    state = run_of(micro("T1"), known)
    assert heights(state) == {"T1": 10.0 + 30.0 + 20.0 + 20.0}


def test_a_model_that_is_new_counts_as_the_others_do() -> None:
    state = run_of(micro("T1", model="haiku"), PAST)
    assert heights(state) == {"T1": 10.0 + 1250.0 + 5.0 + 35.0}


def test_what_this_run_takes_moves_nothing_until_history_is_loaded() -> None:
    """A replay, and a run that was never interrupted, go in the same order."""
    state = run_of(added("T1"), PAST)
    state.history.add(sample(Stage.IMPLEMENT, 9_000.0))
    then(state, [added("T2")])
    assert heights(state) == {"T1": 700.0, "T2": 700.0}


def test_a_replay_gives_the_same_order() -> None:
    events: list[KnownEvent] = [added("T1"), micro("T2"), PAST, added("T3", "T1")]
    state = run_of(*events)
    again = then(run_of(*events[:2]), events[2:])
    assert order(state) == order(again)
    assert heights(state) == heights(again)


def test_a_missing_dependency_does_not_keep_the_rest_from_being_measured() -> None:
    state = run_of(added("T1", "X"), added("T2", "T1"), PAST)
    assert heights(state) == {"T1": 1400.0, "T2": 700.0}
    then(state, [added("X")])
    assert heights(state)["X"] == 2100.0


def test_a_batch_takes_little_longer_than_it_must_without_history() -> None:
    """PERFORMANCE, goal 5; with tasks that differ, and none of it known."""
    measured = ratios(BATCHES, learned=False)
    assert statistics.mean(measured) <= GOAL_WITHOUT
    assert statistics.mean(measured) < statistics.mean(
        ratios(BATCHES, learned=False, first_come=True)
    )


def test_a_batch_takes_hardly_longer_than_it_must_with_history() -> None:
    assert statistics.mean(ratios(BATCHES, learned=True)) <= GOAL_WITH
