"""The ledger by task, stage, model, effort and what became of the work: a fold of the journal.

Amounts are whole billionths of a dollar, which any price per token is a multiple of: so every
grouping sums to the same total.  Invariant: each call is in the books once, in exactly one
class of waste.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from orchestrator.core.events import (
    AttemptRefunded,
    Entry,
    StageDispatched,
    StageRecorded,
    TaskAbandoned,
    TaskFailed,
    TaskRequeued,
)
from orchestrator.core.model import CallCost, Cause, ModelUsage, Outcome, Stage, TaskId

NANOS = 1_000_000_000


class Waste(StrEnum):
    USEFUL = "useful"
    RETRY = "retry"
    """Its verdict spent an attempt, or sent the work back."""
    DISCARDED = "discarded"
    """Of a task that failed or was given up, or of a round before a requeue; whatever it was
    before."""
    WAITING = "waiting"
    """It came to no verdict: a limit, an outage, a crash, an interruption."""


class Key(NamedTuple):
    task: TaskId
    stage: Stage
    model: str
    effort: str
    """Empty: the client's own."""
    waste: Waste


@dataclass(slots=True)
class Sums:
    calls: int = 0
    """A call with several models counts at the one that cost most."""
    unmetered_calls: int = 0
    nanos: int = 0
    unmetered_nanos: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    wall_ms: int = 0

    def add(self, other: "Sums") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class CostBooks:
    """Grows with the tasks and models there are, not with the events."""

    books: dict[Key, Sums] = field(default_factory=dict)
    _keys: dict[TaskId, set[Key]] = field(default_factory=dict)
    _efforts: dict[TaskId, str] = field(default_factory=dict)
    """Of the dispatch that is out."""
    _spent: dict[tuple[TaskId, Stage, int], list[tuple[Key, Sums]]] = field(default_factory=dict)
    """What an attempt cost that a verdict took, in case that it is given back."""

    def take(self, entry: Entry) -> None:
        match entry.event:
            case StageDispatched(task_id=task_id, effort=effort, stage=stage):
                if not stage.is_deterministic:
                    self._efforts[task_id] = effort
            case StageRecorded() as event if not event.stage.is_deterministic:
                self._book(event)
            case AttemptRefunded(task_id=task_id, stage=stage, attempt=attempt):
                for key, sums in self._spent.pop((task_id, stage, attempt), ()):
                    self._move(key, sums, Waste.WAITING)
            case (
                TaskFailed(task_id=task_id)
                | TaskAbandoned(task_id=task_id)
                | TaskRequeued(task_id=task_id)
            ):
                self._discard(task_id)
            case _:
                pass

    def _book(self, event: StageRecorded) -> None:
        waste = waste_of(event)
        effort = self._efforts.pop(event.task_id, "")
        for model, sums in split(event).items():
            key = Key(event.task_id, event.stage, model, effort, waste)
            self._add(key, sums)
            if waste is Waste.RETRY:
                attempt = (event.task_id, event.stage, event.attempt)
                self._spent.setdefault(attempt, []).append((key, sums))

    def _add(self, key: Key, sums: Sums) -> None:
        self.books.setdefault(key, Sums()).add(sums)
        self._keys.setdefault(key.task, set()).add(key)

    def _move(self, key: Key, sums: Sums, waste: Waste) -> None:
        present = self.books[key]
        for name in Sums.__slots__:
            setattr(present, name, getattr(present, name) - getattr(sums, name))
        self._add(key._replace(waste=waste), sums)

    def _discard(self, task_id: TaskId) -> None:
        for key in self._keys.pop(task_id, set()):
            self._add(key._replace(waste=Waste.DISCARDED), self.books.pop(key))
        for attempt in [each for each in self._spent if each[0] == task_id]:
            del self._spent[attempt]


def books_of(entries: Iterable[Entry]) -> CostBooks:
    books = CostBooks()
    for entry in entries:
        books.take(entry)
    return books


def waste_of(event: StageRecorded) -> Waste:
    """As far as the call's own end says it."""
    match event.outcome:
        case Outcome.AGAIN if event.cause is Cause.BUDGET:
            return Waste.USEFUL  # its session goes on with more money
        case Outcome.AGAIN:
            return Waste.WAITING
        case Outcome.RETRY | Outcome.SENT_BACK:
            return Waste.RETRY
        case _:
            return Waste.USEFUL


def split(event: StageRecorded) -> dict[str, Sums]:
    """A call by its models: what each used, and its share of what the call cost."""
    cost = event.cost or CallCost(cost_usd=0.0)
    usage = cost.by_model or {event.model: ModelUsage(cost_usd=cost.cost_usd)}
    shares = shared_out(
        round(cost.cost_usd * NANOS), {model: used.cost_usd for model, used in usage.items()}
    )
    guessed_usd = 0.0 if cost.metered else cost.estimated_usd or cost.cost_usd
    guessed = shared_out(round(guessed_usd * NANOS), dict(shares))
    parts = {
        model: Sums(
            nanos=shares[model],
            unmetered_nanos=guessed[model],
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
        )
        for model, used in usage.items()
    }
    main = parts[max(parts, key=lambda model: (shares[model], model))]
    main.calls = 1
    main.unmetered_calls = int(not cost.metered)
    wall_s = event.exit.duration_s or max(0.0, event.ended_at - event.started_at)
    main.wall_ms = round(wall_s * 1000)
    for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
        unnamed = getattr(cost, name) - sum(getattr(part, name) for part in parts.values())
        setattr(main, name, getattr(main, name) + unnamed)
    return parts


def shared_out(whole: int, weights: Mapping[str, float]) -> dict[str, int]:
    """By weight, in whole parts that sum to the whole; equally where nothing weighs anything."""
    total = sum(weights.values())
    left, left_weight = whole, total or float(len(weights))
    shares: dict[str, int] = {}
    for name in sorted(weights, key=lambda name: (weights[name], name)):
        weight = weights[name] if total else 1.0
        shares[name] = round(left * weight / left_weight) if left_weight > 0 else 0
        left -= shares[name]
        left_weight -= weight
    if left:
        shares[name] += left
    return shares
