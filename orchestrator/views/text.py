"""The status of a run as a compact table for a terminal.

Invariant: no line is wider than asked for, and nothing in it can drive the terminal.
"""

import textwrap
from collections.abc import Sequence

from orchestrator.core.model import RunStatus, TaskStatus
from orchestrator.core.words import in_words, usd_text
from orchestrator.views.advice import Step, next_steps
from orchestrator.views.driver_log import BY_HAND, DriverStatus, without_commands
from orchestrator.views.moments import clock, duration
from orchestrator.views.money import Cost
from orchestrator.views.outlook import in_one_line
from orchestrator.views.status import EventsAudit, Status, TaskRow, WindowRow

WIDTH = 100
TASKS_SHOWN_MAX = 200
WRAPPED_CHARACTERS_MAX = 600
REMARK_CHARACTERS_MAX = 4000
REASONS_MAX = 6

_URGENT = (
    TaskStatus.RUNNING,
    TaskStatus.HELD,
    TaskStatus.FAILED,
    TaskStatus.COOLING,
    TaskStatus.READY,
    TaskStatus.WAITING,
    TaskStatus.CASCADE_BLOCKED,
    TaskStatus.REJECTED,
    TaskStatus.COMPLETED,
    TaskStatus.SUPERSEDED,
)
"""In this order where not all tasks fit."""

_FOR_A_PERSON = (TaskStatus.HELD, TaskStatus.FAILED)
_COLUMNS = ("task", "state", "stage", "for", "usd", "")


def status_text(
    status: Status,
    *,
    width: int = WIDTH,
    program: Sequence[str] = ("orchestrator",),
    is_watched: bool = False,
) -> str:
    lines = [
        _headline(status),
        driver_line(status.driver),
        _cost_line(status.cost),
        *_forecast_lines(status),
        *_window_lines(status),
        *_audit_lines(status.events_audit, lanes_are_clean=status.lane_audit.clean),
        "",
        *task_table(status.tasks, width=width, is_at_rest=is_at_rest(status)),
    ]
    lines = [cut(line, width) for line in lines]
    lines += _reasons_in_full(status.tasks, lines, width)
    steps = next_steps(status, program=program, is_watched=is_watched)
    return "\n".join([*lines, *advice_lines(steps, width)])


def advice_lines(steps: Sequence[Step], width: int) -> list[str]:
    """A command is never cut: it is there to be pasted."""
    lines = ["", "next:"] if steps else []
    for step in steps:
        lines += [*wrapped(step.why, width), f"    {step.command}"]
    return lines


def _reasons_in_full(tasks: Sequence[TaskRow], lines: Sequence[str], width: int) -> list[str]:
    """Of tasks that a person is to decide on, where the table had no room for them: the end of
    a reason says how to mend it."""
    whole = "\n".join(lines)
    cut_off = [
        task
        for task in tasks
        if task.state in _FOR_A_PERSON and task.reason and cut(task.reason, width) not in whole
    ]
    told = [line for task in cut_off[:REASONS_MAX] for line in _reason(task, width)]
    return ["", "why:", *told] if told else []


def _reason(task: TaskRow, width: int) -> list[str]:
    return wrapped(f"{task.task_id}: {task.reason}", width)


def task_table(
    tasks: Sequence[TaskRow], *, width: int = WIDTH, is_at_rest: bool = False
) -> list[str]:
    shown = list(tasks)
    if len(shown) > TASKS_SHOWN_MAX:
        rank = {state: at for at, state in enumerate(_URGENT)}
        shown = sorted(tasks, key=lambda task: rank[task.state])[:TASKS_SHOWN_MAX]
    rows = [_COLUMNS, *(_cells(task, is_at_rest=is_at_rest) for task in shown)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS) - 1)]
    widths[0] = min(widths[0], 30)
    lines = [
        "  ".join([*(cut(c, w).ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    if len(shown) < len(tasks):
        lines.append(f"… and {len(tasks) - len(shown)} more: --json shows all")
    return [cut(line.rstrip(), width) for line in lines]


def driver_line(driver: DriverStatus) -> str:
    return f"driver   {driver_words(driver)}"


def driver_words(driver: DriverStatus) -> str:
    """What is to be said of it, after the word ``driver``."""
    who = f"{driver.pid} " if driver.pid else ""
    heard = f"heard {duration(driver.heartbeat_age_s or 0.0)} ago"
    match driver.state:
        case "none":
            return "none"
        case "live" | "foreign":
            where = f" on {driver.host}" if driver.state == "foreign" else ""
            by_hand = (driver.waits_for or "").startswith(BY_HAND)
            doing = "waiting" if by_hand else (driver.last_state or "starting").replace("_", " ")
            until = (
                f", for {duration(driver.wait_remaining_s)} more" if driver.wait_remaining_s else ""
            )
            why = f" ({driver.waits_for})" if driver.waits_for else ""
            late = "  OVERDUE" if driver.heartbeat_overdue else ""
            return f"{driver.pid}{where}: {doing}{why}{until}; {heard}{late}"
        case "dead":
            return f"{driver.pid} is dead, without a word; {heard}"
        case "exited":
            if driver.exit_signal:
                return f"{who}ended by {driver.exit_signal}"
            return f"{who}ended: {without_commands(driver.exit_reason or '')}"


def cut(text: str, width: int) -> str:
    """One line of printable characters, no longer than ``width``."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def wrapped(text: str, width: int) -> list[str]:
    """The whole text on lines that are indented by two."""
    line = cut(text, WRAPPED_CHARACTERS_MAX)
    return textwrap.wrap(line, max(width, 20), initial_indent="  ", subsequent_indent="  ")


def _headline(status: Status) -> str:
    counts = ", ".join(
        f"{status.counts[state]} {_state(state, is_at_rest=is_at_rest(status))}"
        for state in _URGENT
        if status.counts.get(state)
    )
    reason = without_commands(status.reason or "").removeprefix(f"{status.run_state}: ")
    if is_at_rest(status):
        reason = reason.removesuffix(" was asked for")
    why = f" ({reason})" if reason else ""
    return f"run {status.run_id}: {_run_state(status)}{why}; {counts or 'no tasks'}"


def is_at_rest(status: Status) -> bool:
    """It is not over, and nobody works on it: the journal alone cannot tell."""
    out = status.counts.get(TaskStatus.RUNNING, 0) - len(status.events_audit.orphaned)
    is_worked_on = status.driver.alive or out > 0
    was_driven = status.driver.state != "none"
    return was_driven and status.run_state is RunStatus.RUNNING and not is_worked_on


def _state(state: TaskStatus, *, is_at_rest: bool) -> str:
    """What runs where nobody works is to be taken up again."""
    return "interrupted" if is_at_rest and state is TaskStatus.RUNNING else in_words(state)


def _run_state(status: Status) -> str:
    return "stopped" if is_at_rest(status) else in_words(status.run_state)


def _cost_line(cost: Cost) -> str:
    parts = [f"cost     {usd_text(cost.total_usd)} USD"]
    if cost.budget_usd is not None:
        parts[0] += f" of {usd_text(cost.budget_usd)}"
    if cost.reserved_usd:
        parts.append(f"{usd_text(cost.reserved_usd)} reserved")
    if cost.left_usd is not None and cost.left_usd >= 0.005:
        parts.append(f"at most {usd_text(cost.left_usd)} more")
    if cost.cache_hit_rate is not None:
        parts.append(f"{cost.cache_hit_rate:.0%} of the prompt tokens from cache")
    if not cost.metered:
        parts.append("in part estimated: not every call has said what it cost")
    return "; ".join(parts)


def _forecast_lines(status: Status) -> list[str]:
    if status.forecast is None or status.terminal:
        return []
    return [f"forecast {in_one_line(status.forecast)}"]


def _window_lines(status: Status) -> list[str]:
    told = [
        f"{w.name} {w.utilization:.0%}{'' if w.status == 'allowed' else ' ' + w.status}{_until(w)}"
        for w in status.windows
        if w.utilization is not None and (w.resets_at is None or w.resets_at > status.at)
    ]
    return [f"windows  {', '.join(told)}"] if told else []


def _until(window: WindowRow) -> str:
    return "" if window.resets_at is None else f" until {clock(window.resets_at)}"


def _audit_lines(events: EventsAudit, *, lanes_are_clean: bool) -> list[str]:
    taken_up = f", {events.reclaimed} taken up after a restart" if events.reclaimed else ""
    audit = (
        f"audit    {events.dispatched} dispatched, {events.recorded} recorded,"
        f" {events.outstanding} out{taken_up}"
    )
    lines = [audit]
    if events.orphaned:
        lines.append(f"         nobody looks after {', '.join(events.orphaned)}")
    elif not events.clean:
        lines.append("         NOT CLEAN: dispatched and recorded do not add up")
    if not lanes_are_clean:
        lines.append("         NOT CLEAN: a call ran on another lane than its work item's")
    return lines


def _cells(task: TaskRow, *, is_at_rest: bool) -> tuple[str, ...]:
    at_work = task.state not in {TaskStatus.COMPLETED, TaskStatus.SUPERSEDED}
    again = f" #{task.attempt}" if task.attempt > 1 else ""
    for_s = None if is_at_rest else task.running_s  # it ran until nobody saw it end
    return (
        cut(task.task_id, 30),
        _state(task.state, is_at_rest=is_at_rest),
        f"{task.stage}{again}" if at_work else "",
        duration(for_s) if for_s is not None else "",
        f"{task.cost_usd:.2f}" if task.cost_usd else "",
        cut(_remark(task, at_work=at_work), REMARK_CHARACTERS_MAX),
    )


def _remark(task: TaskRow, *, at_work: bool) -> str:
    """A finished task's branch comes first: it is what there is to fetch."""
    is_placed = bool(task.priority) and not task.state.is_terminal
    placed = f"priority {task.priority}" if is_placed else None
    told = [task.branch if not at_work else None, placed, task.reason]
    return "; ".join(each for each in told if each) or task.title
