"""What a person can do next about a run: each step as one command line that can be pasted.

Invariant: a step is only named where its command is accepted, and changes or shows something.
"""

import shlex
from collections.abc import Callable, Sequence

import msgspec

from orchestrator.core.budget import RESERVATION_USD_MIN
from orchestrator.core.graph import DOOMED
from orchestrator.core.model import Mode, RunStatus, TaskStatus
from orchestrator.core.remainder import in_usd, raised_usd
from orchestrator.views.driver_log import without_commands
from orchestrator.views.status import Status, TaskRow

STEPS_MAX = 6
NAMED_MAX = 3
COMMIT_DIGITS = 12
Command = Callable[..., str]


class Step(msgspec.Struct, frozen=True):
    why: str
    command: str


def next_steps(
    status: Status, *, program: Sequence[str] = ("orchestrator",), is_watched: bool = False
) -> tuple[Step, ...]:
    """``program``: how this program was started, with options that every command needs.

    ``is_watched``: whoever reads this looks on already.
    """
    command = _commands_of(status, program)
    steps = [*_unpausing(status, command), *_unpausing_parts(status, command)]
    for task in status.tasks:
        if task.is_by_hand:
            steps += _by_hand(task, status.at, command)
    if status.driver.alive and not status.driver.heartbeat_overdue:
        if not is_watched:
            steps.append(Step("look on", command("watch")))
    else:
        steps += _driving(status, command)
    doomed = {task.task_id for task in status.tasks if task.state in DOOMED}
    for task in status.tasks:
        if len(steps) >= STEPS_MAX:
            break
        steps += _about(task, command, can_be_done_again=doomed.isdisjoint(task.depends_on))
    steps += _stale(status, command)
    if status.terminal and not status.driver.alive:
        steps += _looking_back(status, command)
    return tuple(steps[:STEPS_MAX])


def to_go_on(status: Status, *, program: Sequence[str] = ("orchestrator",)) -> tuple[Step, ...]:
    """What makes the run go on; nothing where a driver lives, or where there is nothing to do."""
    if status.driver.alive and not status.driver.heartbeat_overdue:
        return ()
    command = _commands_of(status, program)
    return (
        *_unpausing(status, command),
        *_unpausing_parts(status, command),
        *_driving(status, command),
    )


def _commands_of(status: Status, program: Sequence[str]) -> Command:
    def command(*words: str) -> str:
        return shlex.join([*program, "--run", status.run_id, *words])

    return command


def _unpausing(status: Status, command: Command) -> list[Step]:
    if status.run_state is not RunStatus.PAUSED or _is_out_of_money(status):
        return []
    return [Step(f"{without_commands(status.reason or '')}; go on", command("unpause"))]


def _unpausing_parts(status: Status, command: Command) -> list[Step]:
    """What was paused of an open run: tasks, lanes."""
    if status.terminal:
        return []
    steps: list[Step] = []
    if lanes := status.paused_lanes:
        why = f"nothing starts on {', '.join(lanes)}; let it go on"
        steps.append(Step(why, command("unpause", "--lane", *lanes)))
    if paused := [task for task in status.tasks if task.paused is not None]:
        told = "; ".join(f"{task.task_id}: {task.paused}" for task in paused[:NAMED_MAX])
        names = [task.task_id for task in paused[:NAMED_MAX]]
        more = f" (and {len(paused) - len(names)} more)" if len(paused) > len(names) else ""
        why = _short(f"paused{more}: {told}; let {_them(names)} go on")
        steps.append(Step(why, command("unpause", "--task", *names)))
    return steps


def _driving(status: Status, command: Command) -> list[Step]:
    driver = status.driver
    drive = command("run-headless", "--wait")
    if driver.alive and driver.heartbeat_overdue:
        not_heard = f"driver {driver.pid} has not been heard for {driver.heartbeat_age_s:.0f} s"
        return [Step(f"{not_heard}; if it does not come back, end it and go on", drive)]
    if status.terminal:
        return []
    if not status.tasks:
        why = "there are no tasks in the run; once they are written down, add them"
        return [Step(why, command("add-task", "--all"))]
    if missing := _missing(status):
        add = command("add-task", *(word for name in missing for word in ("--task", name)))
        return [Step(f"waited for, and not in the run: {', '.join(missing)}; add it", add)]
    if status.mode is Mode.INTERACTIVE:
        return _raising(status, command) or _next_by_hand(status, command)
    if not _is_anything_to_drive(status):
        return []
    steps = _raising(status, command)
    return [*steps, _drive(status, drive)]


def _raising(status: Status, command: Command) -> list[Step]:
    """Of the run's budget, or of those that keep single tasks waiting."""
    cost = status.cost
    if _is_out_of_money(status):
        raised = in_usd(raised_usd(cost.budget_usd or 0.0, cost.total_usd, cost.to_finish_usd))
        why = (
            f"the budget is spent or promised, and a stage reserves {RESERVATION_USD_MIN:g} USD at"
            f" least; raise it, here to {raised} USD"
        )
        return [Step(why, command("unpause", "--raise-budget", raised))]
    steps: list[Step] = []
    for task in status.tasks:
        if (limit := task.budget_used_up) is not None:
            is_stage = limit.name.startswith("stage_budget:")
            what = (
                [f"{task.stage}_budget_usd"] if is_stage else ["--task", task.task_id, "budget_usd"]
            )
            raised = in_usd(raised_usd(limit.budget_usd, limit.spent_usd, None))
            why = f"{task.task_id}: {limit.in_words}; raise it"
            steps.append(Step(why, command("set", *what, raised)))
    return steps


def _is_out_of_money(status: Status) -> bool:
    cost = status.cost
    left_usd = (cost.budget_usd or 0.0) - cost.total_usd - cost.reserved_usd
    return cost.budget_usd is not None and left_usd < RESERVATION_USD_MIN


def _drive(status: Status, drive: str) -> Step:
    driver = status.driver
    match driver.state:
        case "dead":
            how = f"driver {driver.pid} is dead"
        case "exited" if status.run_state is RunStatus.PAUSED:
            how = "the driver has ended"  # why, the step before says
        case "exited":
            how = f"the driver has ended ({_short(without_commands(driver.exit_reason or ''), 60)})"
        case "foreign":
            how = f"a driver on {driver.host} is not heard any more: make sure it is dead"
            drive += " --take-over"
        case "none" | "live":
            how = "no driver has been started"
    orphans = len(status.events_audit.orphaned)
    orphans -= sum(_is_overdue_by_hand(task, status.at) for task in status.tasks)
    if orphans:
        how += f"; it left {orphans} dispatch{'es' if orphans > 1 else ''}, to be taken up"
    return Step(f"{how}; drive the run", drive)


def _is_anything_to_drive(status: Status) -> bool:
    """A driver that finds only what people hold, or hold back, returns at once."""
    if all(task.state.is_terminal for task in status.tasks):
        return True  # its end is not written down yet
    at_once = {TaskStatus.READY, TaskStatus.COOLING, TaskStatus.RUNNING}
    return any(task.state in at_once and not task.is_by_hand for task in status.tasks)


def _by_hand(task: TaskRow, at: float, command: Command) -> list[Step]:
    out = f"{task.task_id} is out by hand ({task.stage})"
    steps = [Step(f"{out}: hand its result back", command("record", "--result", "FILE"))]
    if _is_overdue_by_hand(task, at):
        resume = command("next", "--task", task.task_id, "--resume")
        steps.append(Step("its time is over: or take it over, if its holder is gone", resume))
    return steps


def _is_overdue_by_hand(task: TaskRow, at: float) -> bool:
    return task.is_by_hand and task.deadline is not None and at >= task.deadline


def _next_by_hand(status: Status, command: Command) -> list[Step]:
    for task in status.tasks:
        has_cooled = task.state is TaskStatus.COOLING and (task.not_before or 0.0) <= status.at
        if task.state is TaskStatus.READY or has_cooled:
            take = command("next", "--task", task.task_id)
            return [Step(f"this run is stepped by hand; take {task.task_id}", take)]
    return []


def _about(task: TaskRow, command: Command, *, can_be_done_again: bool) -> list[Step]:
    match task.state:
        case TaskStatus.HELD:
            told: list[Step] = []
            again = f"{task.task_id} is held: do it again"
        case TaskStatus.FAILED:
            told = [Step(f"{task.task_id} failed: see what it did", command("tail", task.task_id))]
            again = "do it again"
        case _:
            return []
    if can_be_done_again:
        told.append(Step(again, command("requeue", task.task_id)))
    return [*told, Step("or abandon it", command("abandon", task.task_id))]


def _stale(status: Status, command: Command) -> list[Step]:
    """But for those behind one that ended badly: that is to be done again first."""
    doomed = {task.task_id for task in status.tasks if task.state in DOOMED}
    stale = {task.task_id: task for task in status.tasks if task.stale}
    while blocked := {name for name, task in stale.items() if doomed.intersection(task.depends_on)}:
        doomed |= blocked
        stale = {name: task for name, task in stale.items() if name not in blocked}
    again = [name for name, task in stale.items() if task.state is TaskStatus.COMPLETED]
    if not again:
        return []
    why = f"built on work that was requeued: {', '.join(again)}; do {_them(again)} again"
    return [Step(_short(why), command("requeue", *again))]


def _looking_back(status: Status, command: Command) -> list[Step]:
    """What a run that has ended leaves: branches, a bill, and what there is to learn."""
    done = [task for task in status.tasks if task.state is TaskStatus.COMPLETED and task.branch]
    steps: list[Step] = []
    for task in done[:1]:
        since = f"{status.base_commit[:COMMIT_DIGITS]}.." if status.base_commit else ""
        log = ["git", "-C", status.repository, "log", "--patch", f"{since}{task.branch}"]
        what = (
            f"the work is on {len(done)} branches" if len(done) > 1 else "the work is on a branch"
        )
        steps.append(Step(f"{what}; see that of {task.task_id}", shlex.join(log)))
    if status.lane_audit.total_calls:
        steps.append(Step("what it cost", command("cost-report")))
    return [*steps, Step("what came of it, and where the time went", command("retrospective"))]


def _missing(status: Status) -> list[str]:
    present = {task.task_id for task in status.tasks}
    waited_for = {need for task in status.tasks for need in task.waiting_for}
    return sorted(waited_for - present)


def _them(names: Sequence[str]) -> str:
    return "them" if len(names) > 1 else "it"


def _short(reason: str | None, width: int = 240) -> str:
    text = " ".join((reason or "`status` says why").split())
    return text if len(text) <= width else text[: width - 1] + "…"
