"""A run's status as text.  Pure: the same rows as the JSON, for a person's eyes."""

from collections.abc import Iterator, Sequence

from orchestrator.core.model import TaskStatus
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.status import Cost, Status, TaskRow, clock

TASKS_SHOWN_MAX = 200
"""More than that is for a program: --json has them all."""


def status_text(status: Status) -> str:
    lines = [f"run      {status.run_id}: {status.run_state}{_why(status.reason)}"]
    lines.append(f"tasks    {counts_text(status)}")
    lines.append(f"driver   {driver_text(status.driver)}")
    lines.append(f"cost     {cost_text(status.cost)}")
    for window in status.windows:
        used = "?" if window.utilization is None else f"{window.utilization:.0%}"
        until = "" if window.resets_at is None else f", resets {clock(window.resets_at)}"
        lines.append(f"window   {window.name} {used} used{until}")
    if not status.events_audit.clean or not status.lane_audit.clean:
        lines.append("audit    not clean: see `audit`")
    return "\n".join([*lines, "", *task_lines(status.tasks)])


def counts_text(status: Status) -> str:
    parts = [f"{n} {state.replace('_', ' ')}" for state, n in status.counts.items()]
    return f"{len(status.tasks)}: {', '.join(parts)}" if parts else "none: add some with add-task"


def driver_text(driver: DriverStatus) -> str:
    match driver.state:
        case "none":
            return "none has run"
        case "exited":
            how = f", {driver.exit_signal}" if driver.exit_signal else ""
            return f"has ended: {driver.exit_reason}{how}"
        case "dead":
            last = duration(driver.heartbeat_age_s)
            return f"was killed (pid {driver.pid}, last heartbeat {last} ago); run-headless goes on"
        case "live" | "foreign":
            where = f" on {driver.host}" if driver.state == "foreign" else ""
            doing = (driver.last_state or "starting").replace("_", " ")
            beat = f"heartbeat {duration(driver.heartbeat_age_s)} ago"
            late = ", overdue" if driver.heartbeat_overdue else ""
            return f"pid {driver.pid}{where}, {doing}{_why(driver.waits_for)}, {beat}{late}"


def cost_text(cost: Cost) -> str:
    text = f"{cost.total_usd:.4f} USD"
    if cost.budget_usd is not None:
        text += f" of {cost.budget_usd:.2f}"
    if cost.reserved_usd:
        text += f", {cost.reserved_usd:.2f} reserved"
    if cost.max_possible_usd is not None:
        text += f", at most {cost.max_possible_usd:.2f} in the end"
    if cost.cache_hit_rate is not None:
        text += f", {cost.cache_hit_rate:.0%} of the prompts from cache"
    return text if cost.metered else f"{text} (partly estimated)"


def task_lines(tasks: Sequence[TaskRow]) -> Iterator[str]:
    rows = [("task", "state", "stage", "try", "USD", "")]
    rows += [
        (
            task.task_id,
            task.state.value.replace("_", " "),
            "" if task.state.is_terminal else task.stage.value,
            "" if task.state.is_terminal else str(task.attempt),
            f"{task.cost_usd:.4f}" if task.cost_usd else "",
            _note(task),
        )
        for task in tasks[:TASKS_SHOWN_MAX]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[5]]).rstrip()
    if len(tasks) > TASKS_SHOWN_MAX:
        yield f"… and {len(tasks) - TASKS_SHOWN_MAX} more: --json has them all"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _note(task: TaskRow) -> str:
    if task.state is TaskStatus.RUNNING:
        return f"{task.reason or ''}, {duration(task.running_s)}"
    if task.state is TaskStatus.COMPLETED and task.branch:
        return f"{task.branch}{_why(task.reason)}"
    return one_line(task.reason or "")


def one_line(text: str, width: int = 100) -> str:
    words = " ".join(text.split())
    cut = words if len(words) <= width else words[: width - 1] + "…"
    return "".join(c if c.isprintable() else "?" for c in cut)


def _why(reason: str | None) -> str:
    return f" ({one_line(reason)})" if reason else ""
