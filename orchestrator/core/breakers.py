"""Decide whether the run pauses, where more of the same would only cost money.

Three breakers: tasks that fail in a row or alike; calls that fail in a row without any work;
attempts that cost many times what was expected of them.  Each looks at what a person has not
seen yet: it begins anew with ``unpause``, and then one canary goes first.  Where that ends in
the same way the run pauses again at once.  Invariant: a verdict costs the same after ten calls
and after ten thousand, and rests on the events alone: see fold_breakers.py.
"""

import math
import shlex
from collections import defaultdict
from collections.abc import Sequence

from orchestrator.core.budget import EXPECTED_USD
from orchestrator.core.events import (
    CascadeBlocked,
    KnownEvent,
    RunPaused,
    StageRecorded,
    TaskFailed,
)
from orchestrator.core.experience import KNOWN_MIN
from orchestrator.core.model import Outcome, Stage, TaskId
from orchestrator.core.remedy import then_unpause
from orchestrator.core.state import Lease, RunState, Work
from orchestrator.core.storm import ABOUT_THE_WORK, can_start, given_back, is_suspect

WORKS_MIN = 5
"""Fewer attempts say nothing of a rate: each may cost a few times what is usual."""
WORKS_MAX = 10
"""Of older ones nothing is kept, so that a long quiet night hides no wild hour."""
USD_PER_WORK_MIN = 0.25
"""Less than this for each attempt is no runaway, whatever the ratio: a few cents vary by more than
any ratio, and a hundred such attempts are 25 USD."""
IDLE_MAX = 1000
"""The most that ``zero_work_max`` can be."""
NAMED_MAX = 5
KINDS_NAMED_MAX = 3
ERROR_CHARS_MAX = 300
RATIO_MAX = 1000

TASKS, SPEND, ZERO_WORK = "tasks", "spend", "zero_work"


def counts(state: RunState, lease: Lease) -> bool:
    """What was out when one tripped has been answered for by that pause, good or bad."""
    return lease.dispatched_seq > state.breakers.tripped_seq


# -- tasks that fail in a row -------------------------------------------------------------------


def too_many_failed(
    state: RunState, failed: TaskFailed, *, ending: int, lease: Lease | None = None
) -> tuple[KnownEvent, ...]:
    """``ending``: how many tasks end with it; ``lease``: of the dispatch that failed it."""
    most = state.settings.failing_tasks_max
    if not most or state.paused is not None or _open_tasks(state) <= ending:
        return ()
    counted = state.breakers
    in_row, alike = counted.failures_in_row + 1, alike_with(state, failed.signature)
    is_canary = counted.tripped == TASKS and lease is not None and _is_canary(state, lease)
    if not is_canary and max(in_row, alike) < most:
        return ()
    names = [*counted.failed, failed.task_id][-NAMED_MAX:]
    what = f"{in_row} tasks failed in a row"
    if is_canary:
        what, names = "the task that went first failed, too", [failed.task_id]
    elif alike >= most:
        what, names = f"{alike} tasks failed in the same way", names[-alike:]
    reason = f"{what} ({_listed(names, max(in_row, alike))}): {failed.reason[:ERROR_CHARS_MAX]}"
    return (_pause(state, TASKS, f"{reason}; look at them"),)


def alike_with(state: RunState, signature: str) -> int:
    """How many tasks have failed alike in a row, one more with this."""
    counted = state.breakers
    is_alike = bool(signature) and signature == counted.failure_signature
    return counted.failures_alike + 1 if is_alike else 1


# -- calls without any work ---------------------------------------------------------------------


def idle_in_place_of(
    state: RunState, lease: Lease, events: Sequence[KnownEvent], again: Sequence[KnownEvent]
) -> Sequence[KnownEvent]:
    """``events``: what a failure leads to by itself; ``again``: the same attempt once more.

    A client that does nothing says nothing about any task's work, so all of it is given back.
    Where it does nothing for one task alone, the others will show whether it is that task's own.
    """
    failure, most = events[0], state.settings.zero_work_max
    assert isinstance(failure, StageRecorded)
    is_known = any(isinstance(e, RunPaused) and e.systemic for e in events)
    if not most or is_known or state.paused is not None or not _did_nothing(failure):
        return events
    if not counts(state, lease):
        return events
    idle = idle_with(state, failure)
    is_canary, is_one_tasks_own = state.breakers.tripped == ZERO_WORK, len(set(idle)) == 1
    if not is_canary and (len(idle) < most or (is_one_tasks_own and can_start(state) > 1)):
        return events
    struck = set(idle)
    names = _listed(sorted(struck)[:NAMED_MAX], len(struck))
    what = f"{len(idle)} calls in a row failed without any work ({names}), the last one"
    if is_canary:
        what = f"the call that went first failed without any work, too ({names})"
    reason = f"{what}: {failure.error[:ERROR_CHARS_MAX]}; mend what they share"
    return [*again, *given_back(state, struck), _pause(state, ZERO_WORK, reason, systemic=True)]


def idle_with(state: RunState, event: StageRecorded) -> list[TaskId]:
    """The row, once this call is counted."""
    row = state.breakers.idle
    if _did_nothing(event):
        return [*row, event.task_id][-IDLE_MAX:]
    # What is waited for, or was ended by us, says neither the one thing nor the other.
    return [] if event.cause is None or event.cause in ABOUT_THE_WORK or _worked(event) else row


def _did_nothing(event: StageRecorded) -> bool:
    """Failed, by itself, before its model had said or done anything."""
    is_by_hand = event.lane_used.startswith("interactive:")
    is_suspicious = not event.stage.is_deterministic and not is_by_hand and is_suspect(event)
    return is_suspicious and not _worked(event)


def _worked(event: StageRecorded) -> bool:
    """No tool is used without a word.  A prompt that was sent is charged, and is no work yet."""
    cost = event.cost
    if cost is None:
        return False
    return cost.output_tokens > 0 or (cost.metered and cost.cost_usd > 0)


# -- money that goes too fast -------------------------------------------------------------------


def too_dear(state: RunState, lease: Lease, events: Sequence[KnownEvent]) -> tuple[KnownEvent, ...]:
    """``events``: what the call leads to, its record first.

    Each attempt is compared with what the forecast of this run rests on for its stage and model.
    The forecast's total will not do: tasks may be added to the run, and a total says nothing
    about a rate.
    """
    record, ratio = events[0], state.settings.spend_ratio_max
    assert isinstance(record, StageRecorded)
    is_moot = state.paused is not None or any(isinstance(e, RunPaused) for e in events)
    if not ratio or is_moot or lease.stage.is_deterministic or not counts(state, lease):
        return ()
    if not record.cost or _open_tasks(state) <= _ended_by(events):
        return ()
    works, is_canary = dear_with(state, record), state.breakers.tripped == SPEND
    spent = math.fsum(work.usd for work in works)
    expected = math.fsum(work.expected_usd for work in works)
    if len(works) < (1 if is_canary else WORKS_MIN) or spent < USD_PER_WORK_MIN * len(works):
        return ()
    if spent < ratio * expected:
        return ()
    return (_pause(state, SPEND, _too_dear(state, works, spent, expected)),)


def expected_usd(state: RunState, stage: Stage, model: str) -> float:
    """Of an attempt: the mean of what was seen, too few filled up with what is expected anywhere.

    As it was before this run's own: a run does not get used to what it does.
    """
    known = state.breakers.expected_usd.get((stage, model))
    if known is not None:
        return known
    seen = [s.cost_usd for s in state.history.samples.get((stage, model), ()) if s.cost_usd]
    default = EXPECTED_USD[stage]
    if not seen:  # a model is new: it may be dearer than those that are known
        others = [s.cost_usd for s in state.history.of(stage, model) if s.cost_usd]
        return max(default, math.fsum(others) / len(others)) if others else default
    missing = max(0, KNOWN_MIN - len(seen))
    return (math.fsum(seen) + missing * default) / (len(seen) + missing)


def dear_with(state: RunState, event: StageRecorded) -> list[Work]:
    """The last attempts that cost anything, once this call is counted.  What no client has
    metered counts as it is estimated."""
    works = state.breakers.dear
    if event.cost is None or event.cost.cost_usd <= 0:
        return works
    before = next((w for w in works if w.goes_on and w.task_id == event.task_id), None)
    if before is not None and before.stage is not event.stage:
        before = None
    work = Work(
        task_id=event.task_id,
        stage=event.stage,
        model=event.model,
        usd=event.cost.cost_usd + (before.usd if before else 0.0),
        expected_usd=expected_usd(state, event.stage, event.model),
        goes_on=event.outcome is Outcome.AGAIN,
    )
    return [*(w for w in works if w is not before), work][-WORKS_MAX:]


def _too_dear(state: RunState, works: Sequence[Work], spent: float, expected: float) -> str:
    kinds: defaultdict[str, list[Work]] = defaultdict(list)
    for work in works:
        kinds[f"{work.stage} with {work.model}" if work.model else work.stage].append(work)
    sums = {
        kind: (math.fsum(w.usd for w in found), math.fsum(w.expected_usd for w in found))
        for kind, found in kinds.items()
    }
    dearest = sorted(sums, key=lambda kind: -sums[kind][0])[:KINDS_NAMED_MAX]
    told = ", ".join(f"{kind} {sums[kind][0]:.2f} for {sums[kind][1]:.2f}" for kind in dearest)
    what = f"the last {len(works)} attempts of stages with a model have"
    if len(works) < WORKS_MIN:
        what = "the attempt that went first has, too,"
    enough = math.ceil(1.5 * spent / expected) if expected else RATIO_MAX + 1
    allow = ("orchestrator", "--run", state.run_id, "set", "spend_ratio_max")
    return (
        f"spend: {what} cost {spent:.2f} USD where {expected:.2f} were expected ({told}); mend it,"
        f" or if they are to cost that: {shlex.join(allow)} {enough if enough <= RATIO_MAX else 0}"
    )


# -- all of them --------------------------------------------------------------------------------


def _is_canary(state: RunState, lease: Lease) -> bool:
    return counts(state, lease) and not lease.stage.is_deterministic


def _open_tasks(state: RunState) -> int:
    return len(state.tasks) - sum(n for status, n in state.counts.items() if status.is_terminal)


def _ended_by(events: Sequence[KnownEvent]) -> int:
    return sum(
        event.outcome is Outcome.COMPLETED
        if isinstance(event, StageRecorded)
        else isinstance(event, TaskFailed | CascadeBlocked)
        for event in events
    )


def _listed(names: Sequence[TaskId], of: int) -> str:
    return ", ".join(names) + (", …" if of > len(names) else "")


def _pause(state: RunState, breaker: str, reason: str, *, systemic: bool = False) -> RunPaused:
    reason += then_unpause(state)
    return RunPaused(reason=reason, by="driver", systemic=systemic, breaker=breaker)
