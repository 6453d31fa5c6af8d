"""How a dispatch ends in one future: drawn from experience, by dice that its task has alone."""

from dataclasses import dataclass, field

from orchestrator.core.dice import Dice
from orchestrator.core.experience import PRIORS, Experience, Remembered
from orchestrator.core.model import (
    CallCost,
    Cause,
    ChildExit,
    Ending,
    Outcome,
    ResultStatus,
    Stage,
    TaskId,
)
from orchestrator.core.state import Lease, RunState, TaskState

REDRAWN_MAX = 24
OVERDUE_SHARE = 0.1
"""What an attempt that outlasts all that was drawn is given, of what it has taken so far."""


@dataclass(slots=True)
class Fate:
    """Of an attempt, from its beginning."""

    took_s: float
    cost_usd: float
    outcome: Outcome
    attempt: int
    """That the outcome was seen at."""


@dataclass(slots=True)
class _Task:
    dice: Dice
    bent: float
    owed: tuple[Stage, int, Fate] | None = None
    """An attempt that was cut off at its reservation, and its fate."""
    failures: int = 0
    """Those that were unlike the one before."""


@dataclass(slots=True)
class Guess:
    """A Nature: what may well come next."""

    experience: Experience
    seed: int
    future: int
    remembered: Remembered = field(init=False)
    tasks: dict[TaskId, _Task] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remembered = self.experience.again(Dice(self.seed, self.future))

    def ending(self, state: RunState, lease: Lease, now: float) -> Ending:
        task = state.tasks[lease.task_id]
        mind = self._mind(task)
        fate, done_s, done_usd = self._fate(task, mind, lease, now)
        rest_s, rest_usd = fate.took_s - done_s, max(0.0, fate.cost_usd - done_usd)
        cap_usd, timeout_s = lease.max_budget_usd, lease.timeout_s - (now - lease.dispatched_at)
        if cap_usd is not None and rest_usd > cap_usd > 0.0:
            mind.owed = (lease.stage, lease.attempt, fate)
            cut_s = rest_s * cap_usd / rest_usd
            return _ended(lease, now, cut_s, cap_usd, Cause.BUDGET)
        if rest_s > timeout_s:
            return _ended(lease, now, max(0.0, timeout_s), rest_usd, Cause.TIMEOUT)
        cause = _cause(lease.stage, fate.outcome)
        if cause is None:
            return _ended(lease, now, rest_s, rest_usd, None)
        is_alike = fate.outcome is Outcome.FAILED and fate.attempt < state.settings.attempts_max
        mind.failures += not is_alike
        which = f"{task.id} {mind.failures}"
        return _ended(lease, now, rest_s, rest_usd, cause, which)

    def _mind(self, task: TaskState) -> _Task:
        mind = self.tasks.get(task.id)
        if mind is None:
            dice = Dice(self.seed, self.future, task.added_seq)
            mind = self.tasks[task.id] = _Task(dice, self.experience.bent(task.id, dice))
        return mind

    def _fate(
        self, task: TaskState, mind: _Task, lease: Lease, now: float
    ) -> tuple[Fate, float, float]:
        """The attempt's, and what of it is behind: seconds, USD."""
        ran_s, spent_usd = now - lease.dispatched_at + task.unjudged_s, task.unjudged_usd
        owed, mind.owed = mind.owed, None
        if owed is not None and owed[:2] == (lease.stage, lease.attempt):
            return owed[2], ran_s, spent_usd
        for _ in range(REDRAWN_MAX):
            fate = self._drawn(task, mind, lease)
            if fate.took_s > ran_s:
                return fate, ran_s, spent_usd
            mind.bent = self.experience.bent(task.id, mind.dice)
        more = 1.0 + OVERDUE_SHARE
        fate.cost_usd *= ran_s * more / fate.took_s
        fate.took_s = ran_s * more
        return fate, ran_s, spent_usd

    def _drawn(self, task: TaskState, mind: _Task, lease: Lease) -> Fate:
        dice, shared = mind.dice, 0.0 if lease.stage.is_deterministic else self.experience.shared
        again = task.tries(lease.stage, lease.attempt) > 1
        pool = self.remembered.pool(lease.stage, lease.model, again=again)
        place = shared**0.5 * mind.bent + (1.0 - shared) ** 0.5 * dice.normal()
        took_s, like = pool.at(place, dice.normal())
        outcome = like.outcome
        if dice.uniform() * (1 + pool.known) < 1.0:
            failing = dice.uniform() < PRIORS[lease.stage].failing
            outcome = Outcome.RETRY if failing else Outcome.ADVANCED
        cost_usd = like.cost_usd * took_s / max(like.duration_s, 0.001)
        return Fate(took_s, cost_usd, outcome, like.attempt)


def _cause(stage: Stage, outcome: Outcome) -> Cause | None:
    """One that leads to what the outcome says."""
    match outcome:
        case Outcome.ADVANCED | Outcome.COMPLETED | Outcome.AGAIN:
            return None
        case Outcome.HELD:
            return Cause.NOT_FEASIBLE
        case Outcome.SENT_BACK:
            return Cause.REJECTED
        case Outcome.RETRY | Outcome.FAILED:
            return _FAILS_BY[stage]


_FAILS_BY = {
    Stage.INTAKE: Cause.INFRASTRUCTURE,
    Stage.SCOPE: Cause.NO_CHANGE,
    Stage.IMPLEMENT: Cause.NO_CHANGE,
    Stage.TEST: Cause.TESTS_FAILED,
    Stage.DELIVER: Cause.EMPTY_CHANGE,
    Stage.REVIEW: Cause.REJECTED,
}


def _ended(
    lease: Lease, now: float, in_s: float, cost_usd: float, cause: Cause | None, which: str = ""
) -> Ending:
    ended_at = now + in_s
    return Ending(
        status=ResultStatus.SUCCESS if cause is None else ResultStatus.FAILURE,
        cause=cause,
        cost=None if lease.stage.is_deterministic else CallCost(cost_usd=cost_usd),
        # Failures are alike where the same tests fail: no other two are.
        evidence={"failed": [which]} if which else {},
        exit=ChildExit(duration_s=ended_at - lease.dispatched_at),
        started_at=lease.dispatched_at,
        ended_at=ended_at,
    )
