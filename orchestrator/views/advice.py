"""What a person can do next about a run: each step as one command line that can be pasted.

Invariant: a step is only named where it changes something.
"""

import shlex
from collections.abc import Sequence

import msgspec

from orchestrator.core.model import RunStatus, TaskStatus
from orchestrator.views.status import Status

STEPS_MAX = 6


class Step(msgspec.Struct, frozen=True):
    why: str
    command: str


def next_steps(status: Status, *, program: Sequence[str] = ("orchestrator",)) -> tuple[Step, ...]:
    """``program``: how this program was started, with options that every command needs."""

    def command(*words: str) -> str:
        return shlex.join([*program, "--run", status.run_id, *words])

    steps: list[Step] = []
    driver = status.driver
    drive = command("run-headless", "--wait")
    if driver.alive and driver.heartbeat_overdue:
        steps.append(
            Step(
                f"driver {driver.pid} has not been heard for {driver.heartbeat_age_s:.0f} s;"
                " if it does not come back, end it and go on",
                drive,
            )
        )
    elif driver.alive:
        steps.append(Step("look on", command("watch")))
    elif not status.terminal:
        steps += _when_nobody_drives(status, drive, command("add-task", "--all"))
        if status.scheduler.limited_by == "budget":
            raise_it = command("unpause", "--raise-budget", "USD")
            steps.insert(0, Step("the budget is spent or promised; raise it", raise_it))
    if status.run_state is RunStatus.PAUSED:
        steps.insert(0, Step(f"{status.reason}; go on", command("unpause")))
    for task in status.tasks:
        if len(steps) >= STEPS_MAX:
            break
        if task.state is TaskStatus.HELD:
            held = f"{task.task_id} is held ({_short(task.reason)})"
            steps.append(Step(f"{held}: do it again", command("requeue", task.task_id)))
            steps.append(Step("or give it up", command("abandon", task.task_id)))
        elif task.state is TaskStatus.FAILED:
            steps.append(
                Step(
                    f"{task.task_id} failed ({_short(task.reason)}): see what it did",
                    command("tail", task.task_id),
                )
            )
    return tuple(steps[:STEPS_MAX])


def _when_nobody_drives(status: Status, drive: str, add: str) -> list[Step]:
    driver = status.driver
    orphans = len(status.events_audit.orphaned)
    if not status.tasks:
        return [Step("there are no tasks", add)]
    match driver.state:
        case "dead":
            how = f"driver {driver.pid} is dead"
        case "exited":
            how = f"the driver has ended ({_short(driver.exit_reason, 60)})"
        case "foreign":
            how = f"a driver on {driver.host} is not heard any more: make sure it is dead"
            drive += " --take-over"
        case "none" | "live":
            how = "no driver has been started"
    if orphans:
        how += f"; it left {orphans} dispatch{'es' if orphans > 1 else ''}, to be taken up"
    return [Step(f"{how}; drive the run", drive)]


def _short(reason: str | None, width: int = 240) -> str:
    text = " ".join((reason or "`status` says why").split())
    return text if len(text) <= width else text[: width - 1] + "…"
