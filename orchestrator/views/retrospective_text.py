"""A retrospective for a person: a page at most."""

from collections.abc import Sequence

from orchestrator.core.words import counted, in_words, usd_text
from orchestrator.views.cost_books import Waste
from orchestrator.views.moments import duration, moment
from orchestrator.views.outlook import score_lines
from orchestrator.views.retrospective import Retrospective, TaskTime
from orchestrator.views.text import cut

FAILED_SHOWN_MAX = 20
PATH_SHOWN_MAX = 12
NAMED_MAX = 5
REASON_WIDTH = 100
TOLD_ABOVE_S = 0.5
"""Up to here it is ``0 s`` to a person."""


def retrospective_text(seen: Retrospective) -> str:
    counts = ", ".join(f"{n} {in_words(status)}" for status, n in seen.counts.items())
    is_over = "has ended" if seen.ended else "goes on"
    return "\n".join(
        [
            f"run {seen.run_id} {is_over} ({in_words(seen.run_state)}): {counts or 'no tasks'}",
            *_against_the_forecast(seen),
            "",
            *_time_lines(seen),
            "",
            *_money_lines(seen),
            *_failed_lines(seen),
            *_unchecked_lines(seen),
            *_tasks("slowest", seen.slowest),
            *_tasks("critical path", seen.critical_path[-PATH_SHOWN_MAX:]),
        ]
    )


def _against_the_forecast(seen: Retrospective) -> list[str]:
    if seen.score is not None:
        return score_lines(seen.score)
    if not seen.ended:
        return ["forecast   is scored when the run has ended"]
    ended = moment(seen.ended_at) if seen.ended_at is not None else ""
    return [f"ended      {ended}; no forecast was made when it began"]


def _time_lines(seen: Retrospective) -> list[str]:
    time = seen.time
    head = f"time       {duration(seen.wall_s)}"
    if seen.idle_s:
        head += f", {duration(seen.idle_s)} of it with nothing running"
    whole = sum(row.total_s for row in seen.stages) or 1.0
    waits = [
        f"{duration(spent)} {what}"
        for spent, what in (
            (time.for_a_start_s, "for a start"),
            (time.for_a_limit_s, "cooling down"),
            (time.for_dependencies_s, "for dependencies"),
            (time.for_a_person_s, "for a person"),
        )
        if spent >= 1.0
    ]
    return [
        head,
        *(
            f"  {row.stage:<10} {row.total_s / whole:>4.0%}  {duration(row.total_s):>9} in"
            f" {counted(row.dispatches, 'dispatch', 'dispatches')}"
            + (f", median {duration(row.median_s)}" if row.dispatches > 1 else "")
            for row in seen.stages
            if row.total_s > TOLD_ABOVE_S
        ),
        *([f"  tasks waited {', '.join(waits)} (summed over tasks)"] if waits else []),
    ]


def _money_lines(seen: Retrospective) -> list[str]:
    money = seen.money
    budget = f" of {usd_text(money.budget_usd)}" if money.budget_usd is not None else ""
    wasted = [
        f"{usd:.2f} {waste}"
        for waste, usd in money.waste.items()
        if usd and waste is not Waste.USEFUL
    ]
    rows = sorted((row for row in seen.stages if row.cost_usd), key=lambda row: -row.cost_usd)
    return [
        f"money      {usd_text(money.total_usd)} USD{budget}"
        + (f"; not useful: {', '.join(wasted)}" if wasted else ""),
        *(
            f"  {row.stage:<10} {row.cost_usd / (money.total_usd or 1.0):>4.0%}"
            f"  {row.cost_usd:>9.2f}"
            for row in rows
        ),
    ]


def _failed_lines(seen: Retrospective) -> list[str]:
    lines = []
    if seen.causes:
        causes = ", ".join(f"{n} {cause.replace('_', ' ')}" for cause, n in seen.causes.items())
        spent = counted(seen.attempts_spent, "attempt", "attempts")
        lines += ["", f"failures   {causes}; {spent} spent"]
    if seen.failed:
        shown = seen.failed[:FAILED_SHOWN_MAX]
        lines += ["", "not completed"]
        lines += [
            cut(f"  {row.task_id}  {row.state} at {row.stage}: {row.reason}", REASON_WIDTH)
            for row in shown
        ]
        more = len(seen.failed) - len(shown)
        lines += [f"  … and {more} more: --json shows all"] if more else []
    return lines


def _unchecked_lines(seen: Retrospective) -> list[str]:
    if not seen.unchecked:
        return []
    names = list(seen.unchecked)
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    why = next(iter(seen.unchecked.values()))
    return [
        "",
        cut(f"unchecked  {', '.join(names[:NAMED_MAX])}{more}: {why}", REASON_WIDTH),
    ]


def _tasks(title: str, rows: Sequence[TaskTime]) -> list[str]:
    if not rows:
        return []
    width = min(max(len(row.task_id) for row in rows), 30)
    return [
        "",
        title,
        *(
            f"  {cut(row.task_id, width):<{width}}  ran {duration(row.running_s):>9} in"
            f" {duration(row.span_s)}, {row.cost_usd:.2f} USD"
            for row in rows
        ),
    ]
