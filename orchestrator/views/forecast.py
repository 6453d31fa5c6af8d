"""The answer of ``forecast``: what many futures of a run have in common, as rows and as text."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from orchestrator.core.forecast import Change, Futures
from orchestrator.core.model import RunStatus, Stage, TaskId
from orchestrator.core.state import RunState
from orchestrator.core.words import in_words
from orchestrator.views.moments import duration, moment
from orchestrator.views.outlook import Score, Spread, score, score_lines, spread

VERSION = 1
UNFIT_SHARE_MIN = 0.05
"""Of the futures: a task that fails to complete in fewer is not named."""
UNFIT_SHOWN_MAX = 20


class Unfit(msgspec.Struct, kw_only=True):
    """A task that may well not be completed."""

    task_id: TaskId
    share: float
    """Of the futures in which it is not."""
    why: str
    """The most frequent reason."""


class WhatIf(msgspec.Struct, kw_only=True):
    """``slot``: one more at once; ``budget``: that many USD more."""

    change: str
    by: float
    sooner_s: float
    """Median over pairs of futures; negative: later."""
    dearer_usd: float
    more_completed: float
    """Tasks, on average."""
    futures: int


class Basis(msgspec.Struct, kw_only=True):
    attempts: int
    """That are known, of past runs and of this one."""
    own: int
    """Of them, this run's."""
    guessed: tuple[Stage, ...]
    """Stages of which too little is known: for them defaults fill in."""
    shared: float
    """How alike the model's attempts at one task are, 0 to 1."""

    @property
    def in_words(self) -> str:
        if not self.attempts:
            return "defaults: nothing is known of this project yet"
        own = f", {self.own} of them this run's" if self.own else ""
        also = f"; defaults for {', '.join(self.guessed)}" if self.guessed else ""
        return f"this project's runs ({self.attempts} attempts{own}){also}"


class Forecast(msgspec.Struct, kw_only=True):
    v: int = VERSION
    run_id: str
    run_state: RunStatus
    at: float
    """Epoch seconds."""
    basis: Basis | None
    """Null where the run has ended; all that follows up to ``what_if`` is null or empty then."""
    futures: int
    finish_at: Spread | None
    """Epoch seconds: when nothing more happens without a person."""
    duration_s: Spread | None
    cost_usd: Spread | None
    """Of the whole run, what is spent included."""
    spent_usd: float
    budget_usd: float | None
    tasks: int
    completed: Spread | None
    """Tasks."""
    will_not_fit: tuple[Unfit, ...]
    pauses: float
    """How often the run pauses itself, on average; a person is taken to let it go on at once."""
    what_if: tuple[WhatIf, ...]
    score: Score | None
    """Of an ended run: its first forecast, and what came of it."""


def forecast_of(state: RunState, seen: Futures, changes: Sequence[Change]) -> Forecast:
    finish_at, every = spread(seen.finish_at), seen.every
    return Forecast(
        run_id=state.run_id,
        run_state=state.status,
        at=seen.now,
        basis=Basis(
            attempts=seen.experience.samples,
            own=seen.experience.own,
            guessed=tuple(stage for stage in Stage if stage in seen.experience.guessed),
            shared=round(seen.experience.shared, 2),
        ),
        futures=len(every),
        finish_at=finish_at,
        duration_s=Spread(
            p10=finish_at.p10 - seen.now,
            p50=finish_at.p50 - seen.now,
            p90=finish_at.p90 - seen.now,
        ),
        cost_usd=spread(seen.cost_usd),
        spent_usd=state.totals.cost_usd,
        budget_usd=state.settings.budget_usd,
        tasks=len(state.tasks),
        completed=spread(seen.completed),
        will_not_fit=tuple(_unfit(seen)),
        pauses=sum(future.life.pauses for future in every) / len(every),
        what_if=tuple(
            WhatIf(
                change=change.what,
                by=change.by,
                sooner_s=change.sooner_s,
                dearer_usd=change.dearer_usd,
                more_completed=change.more_completed,
                futures=change.futures,
            )
            for change in changes
        ),
        score=None,
    )


def forecast_of_ended(state: RunState, now: float) -> Forecast:
    return Forecast(
        run_id=state.run_id,
        run_state=state.status,
        at=now,
        basis=None,
        futures=0,
        finish_at=None,
        duration_s=None,
        cost_usd=None,
        spent_usd=state.totals.cost_usd,
        budget_usd=state.settings.budget_usd,
        tasks=len(state.tasks),
        completed=None,
        will_not_fit=(),
        pauses=0.0,
        what_if=(),
        score=score(state.forecast, finished_at=state.last_ts, cost_usd=state.totals.cost_usd),
    )


def forecast_text(forecast: Forecast) -> str:
    if forecast.basis is None:
        how = in_words(forecast.run_state)
        ended = f"run {forecast.run_id} has ended ({how}): nothing is left to foresee"
        if forecast.score is None:
            return f"{ended}\nno forecast was made when it began"
        return "\n".join([ended, *score_lines(forecast.score)])
    return "\n".join(
        [
            f"run {forecast.run_id}: {forecast.tasks} tasks, {forecast.run_state}",
            *_figures(forecast),
            *_unfit_lines(forecast.will_not_fit),
            *(_what_if_line(change) for change in forecast.what_if),
            f"rests on   {forecast.basis.in_words}; {forecast.futures} futures",
        ]
    )


def _figures(forecast: Forecast) -> list[str]:
    finish, took, usd, done = (
        forecast.finish_at,
        forecast.duration_s,
        forecast.cost_usd,
        forecast.completed,
    )
    assert finish is not None
    assert took is not None
    assert usd is not None
    assert done is not None
    budget = f", budget {forecast.budget_usd:.2f}" if forecast.budget_usd is not None else ""
    lines = [
        f"ends       {moment(finish.p50)}, in {duration(took.p50)}"
        f"   (p10 {moment(finish.p10)}, p90 {moment(finish.p90)})",
        f"cost       {usd.p50:.2f} USD   (p10 {usd.p10:.2f}, p90 {usd.p90:.2f};"
        f" spent {forecast.spent_usd:.2f}{budget})",
        f"completed  {done.p50:.0f} of {forecast.tasks} tasks"
        f"   (p10 {done.p10:.0f}, p90 {done.p90:.0f})",
    ]
    if forecast.pauses >= UNFIT_SHARE_MIN:
        lines.append(
            f"pauses     {forecast.pauses:.1f} on average, for tasks failing in a row: it is taken"
            f" that you let it go on at once"
        )
    return lines


def _unfit(seen: Futures) -> list[Unfit]:
    """Those that are in most danger first."""
    reasons: defaultdict[TaskId, Counter[str]] = defaultdict(Counter)
    for future in seen.every:
        for task_id, why in future.unfinished.items():
            reasons[task_id][why] += 1
    rows = [
        Unfit(
            task_id=task_id,
            share=round(found.total() / len(seen.every), 3),
            why=found.most_common(1)[0][0],
        )
        for task_id, found in reasons.items()
    ]
    return sorted((row for row in rows if row.share >= UNFIT_SHARE_MIN), key=lambda row: -row.share)


def _unfit_lines(unfit: Sequence[Unfit]) -> list[str]:
    if not unfit:
        return []
    shown = [f"  {row.share:>4.0%}  {row.task_id}: {row.why}" for row in unfit[:UNFIT_SHOWN_MAX]]
    more = len(unfit) - len(shown)
    return [
        "may not be completed, in this share of the futures:",
        *shown,
        *([f"  … and {more} more: --json shows all"] if more else []),
    ]


def _what_if_line(change: WhatIf) -> str:
    what = "one slot more" if change.change == "slot" else f"{change.by:.0f} USD more"
    later = "later" if change.sooner_s < 0 else "sooner"
    return (
        f"with {what}: {duration(abs(change.sooner_s))} {later}, {change.dearer_usd:+.2f} USD,"
        f" {change.more_completed:+.1f} tasks completed"
    )
