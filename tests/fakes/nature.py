"""A world that runs are driven in under a virtual clock: no forecast knows what it does.

Durations are lognormal, with an effect of each task on all that the model does for it; stages
fail now and then, the same way twice at times.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from orchestrator.core.events import Entry, HistoryLoaded, KnownEvent, RunCreated, TaskAdded
from orchestrator.core.fold import replay
from orchestrator.core.futures import Drive, Life, live_through
from orchestrator.core.history import Sample
from orchestrator.core.model import CallCost, Cause, ChildExit, Ending, ResultStatus, Stage, TaskId
from orchestrator.core.settings import Project, Settings
from orchestrator.core.state import Lease, RunState

MEDIAN_S = {
    Stage.INTAKE: 20.0,
    Stage.SCOPE: 150.0,
    Stage.IMPLEMENT: 700.0,
    Stage.TEST: 90.0,
    Stage.DELIVER: 5.0,
    Stage.REVIEW: 120.0,
}
FAILS_BY = {
    Stage.SCOPE: (0.05, Cause.INVALID_OUTPUT),
    Stage.IMPLEMENT: (0.08, Cause.NO_CHANGE),
    Stage.TEST: (0.25, Cause.TESTS_FAILED),
    Stage.REVIEW: (0.2, Cause.REJECTED),
}
USD_PER_S = 0.002


@dataclass
class World:
    """A Nature.  ``spread``: of a duration's logarithm, between tasks and within one."""

    random: Random
    between: float = 0.5
    within: float = 0.5
    alike: float = 0.3
    """How often a task that fails again fails in the same way."""
    bent: dict[TaskId, float] = field(default_factory=dict)
    failures: int = 0

    def ending(self, state: RunState, lease: Lease, now: float) -> Ending:
        stage, random = lease.stage, self.random
        bent = self.bent.setdefault(lease.task_id, random.gauss(0.0, self.between))
        if stage.is_deterministic:
            bent = 0.0
        took_s = MEDIAN_S[stage] * math.exp(bent + random.gauss(0.0, self.within))
        share, cause = FAILS_BY.get(stage, (0.0, Cause.CRASH))
        fails = random.random() < share
        usd = took_s * USD_PER_S * math.exp(random.gauss(0.0, 0.3))
        self.failures += random.random() >= self.alike
        return Ending(
            status=ResultStatus.FAILURE if fails else ResultStatus.SUCCESS,
            cause=cause if fails else None,
            evidence={"failed": [f"{lease.task_id} {self.failures}"]},
            cost=None if stage.is_deterministic else CallCost(cost_usd=usd),
            exit=ChildExit(duration_s=took_s),
            started_at=now,
            ended_at=now + took_s,
        )


def batch(random: Random, tasks: int) -> list[KnownEvent]:
    """Tasks that depend on up to two of the twenty before them."""
    events: list[KnownEvent] = []
    for i in range(tasks):
        earlier = range(max(0, i - 20), i)
        needs = random.sample(earlier, k=min(len(earlier), random.choice((0, 0, 0, 1, 1, 2))))
        depends_on = tuple(TaskId(f"t{need}") for need in sorted(needs))
        task = TaskId(f"t{i}")
        events.append(TaskAdded(task_id=task, slug=task, title=task, depends_on=depends_on))
    return events


def run_of(
    tasks: Sequence[KnownEvent],
    past: Sequence[Sample] = (),
    *,
    settings: Settings | None = None,
    run_id: str = "r",
) -> RunState:
    """Before anything has started."""
    project = Project(name="p", root="/p")
    events = [RunCreated(settings=settings or Settings(), project=project), *tasks]
    if past:
        events.append(HistoryLoaded(samples=tuple(past)))
    return replay(
        Entry(seq=seq, ts=0.0, run_id=run_id, event=event) for seq, event in enumerate(events, 1)
    )


def lived(state: RunState, world: World, *, slots: int) -> Life:
    return live_through(state, world, now=0.0, drive=Drive(max_concurrent=slots))
