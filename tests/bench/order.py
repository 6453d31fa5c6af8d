"""Goal 5: how near the order of work comes to the shortest time that there could be.

Pure computation: the real plan, decide and fold under a virtual clock, over random batches.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from orchestrator.core.events import Entry, HistoryLoaded, KnownEvent, RunCreated, TaskAdded
from orchestrator.core.fold import replay
from orchestrator.core.futures import Drive, live_through
from orchestrator.core.history import Sample
from orchestrator.core.model import Ending, Outcome, ResultStatus, RunStatus, Stage, TaskId
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import Lease, RunState

TASKS, SLOTS = 60, 8
SEEDS = range(60)
GOAL_WITHOUT, GOAL_WITH = 1.06, 1.02

MEDIAN_S = {
    Stage.INTAKE: 20.0,
    Stage.SCOPE: 150.0,
    Stage.IMPLEMENT: 700.0,
    Stage.TEST: 90.0,
    Stage.DELIVER: 5.0,
    Stage.REVIEW: 120.0,
}
MODELS = {"haiku": 0.35, "sonnet": 1.0, "opus": 2.2}
"""How long each takes, in terms of the medians above."""
SPREAD = 0.5
"""Of a duration's logarithm."""


@dataclass(frozen=True)
class Batch:
    events: Sequence[KnownEvent]
    past: tuple[Sample, ...]
    took_s: dict[tuple[TaskId, Stage], float]

    def ending(self, state: RunState, lease: Lease, now: float) -> Ending:
        took_s = self.took_s[lease.task_id, lease.stage]
        return Ending(status=ResultStatus.SUCCESS, started_at=now, ended_at=now + took_s)

    @property
    def bound_s(self) -> float:
        """No order can end sooner: all slots always busy, or the longest path."""
        tasks = [event for event in self.events if isinstance(event, TaskAdded)]
        own = {t.task_id: sum(self.took_s[t.task_id, stage] for stage in Stage) for t in tasks}
        ends: dict[TaskId, float] = {}
        for task in tasks:
            begins = max((ends[need] for need in task.depends_on), default=0.0)
            ends[task.task_id] = begins + own[task.task_id]
        return max(sum(own.values()) / SLOTS, max(ends.values()))


def random_batch(seed: int, models: Sequence[str] = tuple(MODELS)) -> Batch:
    """Tasks depend on up to two of those before them; past runs took as long as this one will."""
    random = Random(seed)
    events: list[KnownEvent] = []
    took_s: dict[tuple[TaskId, Stage], float] = {}
    for i in range(TASKS):
        task, model = TaskId(f"t{i}"), random.choice(models)
        earlier = range(max(0, i - 20), i)
        needs = random.sample(earlier, k=min(len(earlier), random.choice((0, 0, 1, 1, 2))))
        depends_on = tuple(TaskId(f"t{need}") for need in sorted(needs))
        added = TaskAdded(task_id=task, slug=task, title=task, model=model, depends_on=depends_on)
        events.append(added)
        took_s.update({(task, stage): _duration_s(random, stage, model) for stage in Stage})
    past = tuple(
        _sample(random, stage, model) for stage in Stage for model in models for _ in range(20)
    )
    return Batch(events=events, past=past, took_s=took_s)


def makespan_s(batch: Batch, *, learned: bool, first_come: bool = False) -> float:
    created = RunCreated(
        settings=Settings(max_concurrent=SLOTS), project=Project(name="p", root="/")
    )
    events = [created, *batch.events]
    if learned:
        events.append(HistoryLoaded(samples=batch.past))
    state = replay(
        Entry(seq=seq, ts=0.0, run_id="r", event=event) for seq, event in enumerate(events, 1)
    )
    if first_come:
        for task in state.tasks.values():
            task.height = 0.0
        state.ready = [
            (0, -0.0, task.added_seq, task.id) for task in state.tasks.values() if not task.unmet
        ]
    life = live_through(state, batch, now=0.0, drive=Drive(max_concurrent=SLOTS))
    assert state.finalized is RunStatus.COMPLETED, life
    return life.ended_at


def _duration_s(random: Random, stage: Stage, model: str) -> float:
    factor = 1.0 if stage.is_deterministic else MODELS[model]
    return MEDIAN_S[stage] * factor * math.exp(random.gauss(0.0, SPREAD))


def _sample(random: Random, stage: Stage, model: str) -> Sample:
    took_s = _duration_s(random, stage, model)
    name = "" if stage.is_deterministic else model
    return Sample(stage=stage, model=name, outcome=Outcome.ADVANCED, duration_s=took_s)


def ratios(batches: Sequence[Batch], *, learned: bool, first_come: bool = False) -> list[float]:
    """Makespan by the shortest that there could be."""
    return [
        makespan_s(batch, learned=learned, first_come=first_come) / batch.bound_s
        for batch in batches
    ]


def report(directory: Path) -> Iterator[str]:
    del directory
    for name, models in (("one model", ("sonnet",)), ("three models", tuple(MODELS))):
        batches = [random_batch(seed, models) for seed in SEEDS]
        for title, learned, first_come, goal in (
            ("first come, first served", False, True, ""),
            ("critical path, every stage equal", False, False, f" (goal {GOAL_WITHOUT})"),
            ("critical path by learned durations", True, False, f" (goal {GOAL_WITH})"),
        ):
            measured = ratios(batches, learned=learned, first_come=first_come)
            yield (
                f"{name:<12} {title:<34} makespan / bound: mean {statistics.mean(measured):.3f}"
                f"{goal}, worst {max(measured):.3f}"
            )
