"""What was tried and what came of it: a table for a person, one row per kind of trial."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.killpoints.full_disk import Siege
from tests.killpoints.random_kills import Round, Victim
from tests.killpoints.sweep import Outcome
from tests.killpoints.verdict import Verdict

WAYS = ("adopted", "harvested", "resumed", "redispatched")
HEAD = (
    *("what", "tried", "fired", " ".join(WAYS)),
    *("re-run in flight", "re-run finished", "survivors", "violated"),
)


@dataclass
class Row:
    tried: int = 0
    fired: int = 0
    rerun_in_flight: int = 0
    rerun_finished: int = 0
    survivors: int = 0
    violated: int = 0
    taken_up: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, *, fired: int) -> None:
        self.tried += 1
        self.fired += fired
        self.rerun_in_flight += verdict.rerun_in_flight
        self.rerun_finished += verdict.rerun_finished
        self.survivors += verdict.survivors
        self.violated += bool(verdict.violations)
        self.taken_up.update(verdict.taken_up)

    def cells(self) -> list[str]:
        figures = (self.rerun_in_flight, self.rerun_finished, self.survivors, self.violated)
        ways = " ".join(f"{self.taken_up[way]:>{len(way)}}" for way in WAYS)
        return [str(self.tried), str(self.fired), ways, *map(str, figures)]


def of_points(outcomes: Iterable[Outcome]) -> Iterator[str]:
    rows: dict[str, Row] = {}
    for outcome in outcomes:
        row = rows.setdefault(_row_name(outcome), Row())
        row.add(outcome.verdict, fired=outcome.hit is not None)
    yield from _table(rows)


def of_rounds(rounds: Iterable[Round]) -> Iterator[str]:
    rows: dict[str, Row] = {}
    kills: Counter[Victim] = Counter()
    for one in rounds:
        kills.update(one.killed)
        row = rows.setdefault(f"rounds with {one.killed.total()} kills", Row())
        row.add(one.verdict, fired=one.killed.total())
    yield from _table(rows)
    yield "killed: " + ", ".join(f"{victim} {kills[victim]}" for victim in Victim)


def of_sieges(sieges: Iterable[Siege]) -> Iterator[str]:
    commands: Counter[str] = Counter()
    drivers: Counter[str] = Counter()
    rounds = dispatched = violated = 0
    for siege in sieges:
        rounds += 1
        commands.update(siege.commands)
        drivers.update(siege.drivers)
        dispatched += siege.dispatched
        violated += bool(siege.violations)
    yield f"full disk: {rounds} rounds, {dispatched} dispatches, {violated} violated"
    yield f"  drivers: {_counted(drivers)}"
    yield f"  commands: {_counted(commands)}"


def trouble(trial: Outcome | Round | Siege) -> list[str]:
    """For each thing that is wrong with a trial, a line."""
    match trial:
        case Outcome(points=points, hit=hit, statuses=statuses, verdict=verdict):
            name = ", then ".join(map(str, points))
            wrong = list(verdict.violations)
            wrong += [f"never reached (statuses {statuses})"] * (hit is None)
        case Round(seed=seed, verdict=verdict):
            name, wrong = f"random round {seed}", verdict.violations
        case Siege(seed=seed, violations=violations):
            name, wrong = f"full disk {seed}", violations
    return [f"{name}: {what}; see {trial.kept}" for what in wrong]


def _row_name(outcome: Outcome) -> str:
    """The file that was hit, the call, the fault; of several points the last."""
    point = outcome.points[-1]
    during = "recovery: " if len(outcome.points) > 1 else ""
    return f"{during}{outcome.hit or 'never reached'}: {point.call}, {point.fault}"


def _table(rows: dict[str, Row]) -> Iterator[str]:
    total = Row()
    for row in rows.values():
        for name in vars(total):
            mine, its = getattr(total, name), getattr(row, name)
            setattr(total, name, mine + its)
    cells = [list(HEAD), *([name, *row.cells()] for name, row in sorted(rows.items()))]
    cells.append(["all", *total.cells()])
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD))]
    for first, *rest in cells:
        figures = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *figures])


def _counted(words: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
