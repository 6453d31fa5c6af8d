"""What a project's attempts took, cost and came to: the ground that futures are drawn from.

An attempt is drawn whole, its duration with its cost and its outcome, from those of its kind
(stage, model, first try or again).  What the attempts of one task share is learned, too: a
task that was slow so far is expected to go on so.  docs/decisions/0006-forecast.md says why.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.core.dice import Dice, score, share
from orchestrator.core.history import History, Sample
from orchestrator.core.model import Outcome, Stage, TaskId

Kind = tuple[Stage, str, bool]
"""Stage, model, and whether the work was tried before."""

KNOWN_MIN = 8
"""Fewer of a kind are filled up with what is expected anywhere."""
PAIRS_MIN = 4.0
"""What tasks share counts in full only where many more pairs than this were seen."""
SHARED_MAX = 0.9


@dataclass(frozen=True, slots=True)
class Prior:
    """Of an attempt at a stage, anywhere: nothing but a guess, and said to be one."""

    median_s: float
    median_usd: float = 0.0
    failing: float = 0.0


PRIORS = {
    Stage.INTAKE: Prior(15.0),
    Stage.SCOPE: Prior(150.0, 0.4, 0.05),
    Stage.IMPLEMENT: Prior(600.0, 2.0, 0.1),
    Stage.TEST: Prior(60.0, 0.0, 0.2),
    Stage.DELIVER: Prior(5.0),
    Stage.REVIEW: Prior(150.0, 0.5, 0.2),
}
PRIOR_SPREAD = 0.8
"""Of a duration's logarithm, from task to task."""
PRIOR_LEVEL = 0.7
"""The same, from project to project."""
SHORTEST_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """How far what was seen may be from what is so; of one future, for all kinds alike."""

    widen: float
    """Few lie nearer together than many would."""
    drift: float
    """Of the middle, in terms of the spread."""
    level: float
    """Of what is only guessed."""

    @classmethod
    def drawn(cls, tasks: int, dice: Dice) -> "Doubt":
        """``tasks``: how many there were to learn from."""
        free = max(tasks, KNOWN_MIN) - 1
        return cls(
            widen=math.sqrt(free / _chi_squared(free, dice.normal())),
            drift=dice.normal() / math.sqrt(free),
            level=PRIOR_LEVEL * dice.normal(),
        )


def _chi_squared(degrees: int, normal: float) -> float:
    """Wilson and Hilferty's."""
    of_cube = 2.0 / (9.0 * degrees)
    root = max(1.0 - of_cube + normal * math.sqrt(of_cube), 0.2)
    return degrees * root**3


class Pool:
    """Attempts of one kind, shortest first, as one future has them."""

    def __init__(self, samples: Sequence[Sample], known: int, doubt: Doubt) -> None:
        self.known = known
        """How many were seen, without those that are guessed."""
        self._samples = samples
        logs = [math.log(max(sample.duration_s, SHORTEST_S)) for sample in samples]
        middle = sum(logs) / len(logs)
        spread = math.sqrt(sum((x - middle) ** 2 for x in logs) / len(logs))
        bandwidth: float = len(logs) ** -0.2
        self._apart = [x - middle for x in logs]
        self._middle = middle + doubt.drift * spread
        self._smooth = bandwidth * spread
        self._scale = doubt.widen / math.sqrt(1.0 + bandwidth * bandwidth)

    def at(self, place: float, jitter: float) -> tuple[float, Sample]:
        """Seconds, and the attempt that they come from.  Both arguments: standard normal.

        Smoothed, and drawn together again by as much: the longest that was seen is not the
        longest that can be, and the spread stays.
        """
        at = min(int(share(place) * len(self._apart)), len(self._apart) - 1)
        apart = self._scale * (self._apart[at] + self._smooth * jitter)
        return math.exp(self._middle + apart), self._samples[at]


class Experience:
    def __init__(self, history: History) -> None:
        self.samples = sum(map(len, history.samples.values()))
        self.own = sum(history.own.values())
        self.guessed: set[Stage] = set()
        """Stages of which too little is known, of those that were asked for."""
        self._history = history
        self._kinds: dict[Kind, list[Sample]] = {}
        self._scores = _scores(history)
        self.shared = _shared(self._scores)
        """How alike the model's attempts at one task are: a correlation, 0 to 1."""
        every = [sample.task for kept in history.samples.values() for sample in kept]
        self._tasks = [task for task in dict.fromkeys(every) if task]
        own = {sample.task for sample in history.own_samples()}
        self._hints = {
            TaskId(task): (len(found), sum(found))
            for task, found in self._scores.items()
            if task in own
        }

    def of(self, stage: Stage, model: str, *, again: bool) -> list[Sample]:
        """Of this kind; where there are too few tries again, of all of them.  By duration."""
        kind = (stage, model, again)
        found = self._kinds.get(kind)
        if found is None:
            every = self._history.of(stage, model)
            like = [sample for sample in every if (sample.attempt > 1) is again]
            chosen = like if len(like) >= KNOWN_MIN else every
            found = sorted(chosen, key=lambda sample: sample.duration_s)
            self._kinds[kind] = found
            if len(found) < KNOWN_MIN:
                self.guessed.add(stage)
        return found

    def bent(self, task_id: TaskId, dice: Dice) -> float:
        """What is behind all attempts at a task, standard normal: drawn in the light of those
        that it has had."""
        seen, total = self._hints.get(task_id, (0, 0.0))
        apart = 1.0 - self.shared + seen * self.shared
        middle = math.sqrt(self.shared) * total / apart
        return middle + math.sqrt((1.0 - self.shared) / apart) * dice.normal()

    def again(self, dice: Dice) -> "Remembered":
        """As it might as well have been: tasks drawn anew, because the past was chance, too."""
        tasks = self._tasks
        weights: defaultdict[str, int] = defaultdict(int)
        for _ in tasks:
            weights[tasks[int(dice.uniform() * len(tasks))]] += 1
        return Remembered(self, weights, Doubt.drawn(len(tasks), dice))


class Remembered:
    """The experience that one future rests on."""

    def __init__(self, experience: Experience, weights: dict[str, int], doubt: Doubt) -> None:
        self._experience = experience
        self._weights = weights
        self._doubt = doubt
        self._pools: dict[Kind, Pool] = {}

    def pool(self, stage: Stage, model: str, *, again: bool) -> Pool:
        kind = (stage, model, again)
        pool = self._pools.get(kind)
        if pool is None:
            pool = self._pools[kind] = self._made(*kind)
        return pool

    def _made(self, stage: Stage, model: str, again: bool) -> Pool:
        known = self._experience.of(stage, model, again=again)
        weights = self._weights
        drawn = [s for s in known for _ in range(weights.get(s.task, 0) if s.task else 1)]
        drawn = drawn or list(known)
        if len(known) < KNOWN_MIN:
            drawn = sorted(
                [*drawn, *self._guesses(stage, known)], key=lambda sample: sample.duration_s
            )
        return Pool(drawn, len(known), self._doubt)

    def _guesses(self, stage: Stage, known: Sequence[Sample]) -> list[Sample]:
        """What fills up too few: spread as anywhere, around what is known or a prior."""
        prior = PRIORS[stage]
        middle = math.log(prior.median_s) + self._doubt.level
        dearness = prior.median_usd / prior.median_s
        if known:
            logs = [math.log(max(s.duration_s, SHORTEST_S)) for s in known]
            middle = sum(logs) / len(logs) + self._doubt.level / (1 + len(logs))
            seconds = sum(s.duration_s for s in known)
            dearness = sum(s.cost_usd for s in known) / seconds if seconds else 0.0
        guesses = []
        missing = KNOWN_MIN - len(known)
        for i in range(missing):
            took_s = math.exp(middle + PRIOR_SPREAD * score((i + 0.5) / missing))
            guesses.append(
                Sample(
                    stage=stage,
                    outcome=Outcome.ADVANCED,
                    duration_s=took_s,
                    cost_usd=dearness * took_s,
                )
            )
        return guesses


def _scores(history: History) -> dict[str, list[float]]:
    """Task -> where each of its model attempts lies among those of its kind, standard normal."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for (stage, _), kept in history.samples.items():
        if stage.is_deterministic or len(kept) < KNOWN_MIN:
            continue
        ranked = sorted(kept, key=lambda sample: sample.duration_s)
        for rank, sample in enumerate(ranked):
            if sample.task:
                scores[sample.task].append(score((rank + 0.5) / len(ranked)))
    return scores


def _shared(scores: dict[str, list[float]]) -> float:
    """The correlation between two attempts at one task, less where few were seen."""
    products = pairs = squares = seen = 0.0
    for found in scores.values():
        total, own = sum(found), sum(x * x for x in found)
        products += (total * total - own) / 2
        pairs += len(found) * (len(found) - 1) / 2
        squares += own
        seen += len(found)
    if not squares:
        return 0.0
    return min(max(products / (pairs + PAIRS_MIN) * seen / squares, 0.0), SHARED_MAX)
