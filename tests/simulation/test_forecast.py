"""The forecast is calibrated: what is said to hold in 80 of 100 runs holds in about as many.

Each trial is a world of its own: past runs are lived through in it, a forecast is made from what
they left, and then the run itself is lived through.  Fixed seeds, virtual clock: no timed test.
"""

from dataclasses import dataclass
from random import Random

import msgspec
import pytest

from orchestrator.core.events import ForecastMade
from orchestrator.core.experience import Experience
from orchestrator.core.forecast import foresee
from orchestrator.core.futures import Drive
from orchestrator.core.history import History, Sample
from orchestrator.core.settings import Settings
from tests.fakes.nature import World, batch, lived, run_of

SEEDS = range(1_000, 1_100)
TASKS, SLOTS, FUTURES = 20, 4, 40
PAST_TASKS = (20, 20)


@dataclass(frozen=True)
class Trial:
    said: ForecastMade
    ended_at: float
    cost_usd: float


def trial(seed: int, past_tasks: tuple[int, ...]) -> Trial:
    random = Random(seed)
    past: list[Sample] = []
    for number, size in enumerate(past_tasks):
        state = run_of(batch(random, size))
        lived(state, World(random), slots=SLOTS)
        past += [
            msgspec.structs.replace(sample, task=f"{number}/{sample.task}")
            for sample in state.history.own_samples()
        ]
    tasks = batch(random, TASKS)
    settings = Settings(max_concurrent=SLOTS)
    state = run_of(tasks, past, settings=settings, run_id=f"r{seed}")
    drive = Drive(max_concurrent=SLOTS)
    said = foresee(state, now=0.0, drive=drive, count=FUTURES).as_event()
    life = lived(state, World(random), slots=SLOTS)
    return Trial(said, life.ended_at, state.totals.cost_usd)


@pytest.mark.slow
def test_the_outcome_lies_where_it_was_said_to() -> None:
    trials = [trial(seed, PAST_TASKS) for seed in SEEDS]
    in_time = sum(t.said.finish_at[0] <= t.ended_at <= t.said.finish_at[2] for t in trials)
    late = sum(t.ended_at > t.said.finish_at[1] for t in trials)
    in_money = sum(t.said.cost_usd[0] <= t.cost_usd <= t.said.cost_usd[2] for t in trials)
    dear = sum(t.cost_usd > t.said.cost_usd[1] for t in trials)
    assert 70 <= in_time <= 90
    assert 70 <= in_money <= 90
    assert 35 <= late <= 65
    assert 35 <= dear <= 65


def test_what_was_learned_is_told_apart_from_chance() -> None:
    """Half of what tells two attempts of one task from those of others is the task's own."""
    random, history = Random(1), History()
    for number in range(3):
        state = run_of(batch(random, 40))
        lived(state, World(random), slots=SLOTS)
        history.load(
            [
                *history.past_samples(),
                *(
                    msgspec.structs.replace(sample, task=f"{number}/{sample.task}")
                    for sample in state.history.own_samples()
                ),
            ]
        )
    assert 0.35 < Experience(history).shared < 0.65
