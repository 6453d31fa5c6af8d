"""Why nothing can happen any more without a person, and the command that mends it.

Invariant: each command is one that can be pasted, and changes something.
"""

import heapq
from collections.abc import Sequence

from orchestrator.core.bar import LANE, is_about_pausing
from orchestrator.core.budget import RESERVATION_USD_MIN, Limit, used_up
from orchestrator.core.events import KnownEvent, RunPaused
from orchestrator.core.model import TaskStatus
from orchestrator.core.plan import Plan
from orchestrator.core.remainder import in_usd, raised_usd, to_finish
from orchestrator.core.remedy import command, then_unpause
from orchestrator.core.state import RunState, TaskState
from orchestrator.core.words import usd_text
from orchestrator.views.moments import clock

NAMED_MAX = 3


def ends_stalled(due: Plan, *, wait: bool) -> bool:
    """Whether the driver ends for it.  For a paused part one that may wait does not."""
    return bool(due.stalled) and not (wait and is_about_pausing(due.stalled))


def why_stalled(state: RunState, stalled: str) -> str:
    """``stalled``: as the plan says it."""
    if stalled == "paused":
        why = (state.paused or "").removesuffix(then_unpause(state))
        if why.startswith("budget: "):
            return why
        return f"paused: {why}; go on: {command(state.run_id, 'unpause')}"
    if stalled == "budget":
        return out_of_money(state)
    if stalled == "cooldown" and state.cooldown_until is not None:
        return f"cooldown: {state.cooldown_reason}; come back at {clock(state.cooldown_until)}"
    if stalled == "canary" and state.canary == "account":
        return "canary: another stage asks just now whether the account's limit is over"
    if is_about_pausing(stalled):
        return paused_in_part(state, stalled)
    return _tasks_without_money(state) if is_about_money(stalled) else stalled


def is_about_money(limited_by: str) -> bool:
    return limited_by.partition(":")[0] in {"budget", "task_budget", "stage_budget"}


def paused_in_part(state: RunState, limited_by: str, task: TaskState | None = None) -> str:
    """Which lane or which tasks a person has paused, and what lets them go on.

    ``task``: the one that is asked about; None: all that could start otherwise.
    """
    if limited_by.startswith(LANE):
        lane = limited_by.removeprefix(LANE)
        return f"paused: lane {lane}; go on: {command(state.run_id, 'unpause', '--lane', lane)}"
    aside = [task] if task else [state.tasks[name] for name in state.set_aside]
    named = heapq.nsmallest(NAMED_MAX, aside, key=lambda each: each.added_seq)
    told = ", ".join(f"{each.id} ({each.paused})" for each in named)
    more = f", and {len(aside) - len(named)} tasks more" if len(aside) > len(named) else ""
    names = [str(each.id) for each in named]
    return f"paused: {told}{more}; go on: {command(state.run_id, 'unpause', '--task', *names)}"


def pause_for_money(
    state: RunState, due: Plan, notes: Sequence[KnownEvent]
) -> Sequence[KnownEvent]:
    """A pause, where that is still so; ``notes`` go out with it."""
    if due.stalled != "budget":
        return ()
    return [*notes, RunPaused(reason=out_of_money(state), by="driver")]


def out_of_money(state: RunState) -> str:
    """The run's budget is spent."""
    budget, spent = state.settings.budget_usd or 0.0, state.totals.cost_usd
    left = to_finish(state)
    raised = raised_usd(budget, spent, left.usd if left.is_known else None)
    return (
        f"budget: {usd_text(spent)} of {usd_text(budget)} USD are spent, too little is left for"
        f" another stage, which reserves {RESERVATION_USD_MIN:g} USD at least; {left.in_words()};"
        " raise it: " + command(state.run_id, "unpause", "--raise-budget", in_usd(raised))
    )


def _tasks_without_money(state: RunState) -> str:
    waiting = (TaskStatus.READY, TaskStatus.COOLING)
    found = [
        (task, limit)
        for task in state.tasks.values()
        if task.status in waiting and (limit := used_up(state, task)) is not None
    ]
    told = [_raise(state, task, limit) for task, limit in found[:NAMED_MAX]]
    more = f"; and {len(found) - NAMED_MAX} tasks more" if len(found) > NAMED_MAX else ""
    return f"budget: {'; '.join(told)}{more}"


def _raise(state: RunState, task: TaskState, limit: Limit) -> str:
    raised = raised_usd(limit.budget_usd, limit.spent_usd, None)
    of = f"{usd_text(limit.spent_usd)} of {usd_text(limit.budget_usd)} USD"
    if limit.name.startswith("stage_budget:"):
        return f"{task.stage} of {task.id} has cost {of}, raise it for all: " + command(
            state.run_id, "set", f"{task.stage}_budget_usd", in_usd(raised)
        )
    return f"{task.id} has cost {of}, raise it: " + command(
        state.run_id, "set", "--task", task.id, "budget_usd", in_usd(raised)
    )
