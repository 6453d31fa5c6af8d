"""Before a driver begins: what past runs of the project teach, and what this one is likely to
come to.

Neither may keep a run from being driven: what goes wrong is said, and passed over.
"""

import time
from collections.abc import Sequence

from drivers.headless.outside import Audience, Invocation
from orchestrator.core.events import ForecastMade, HistoryLoaded, KnownEvent
from orchestrator.core.forecast import FUTURES_MIN, foresee, futures_that_fit
from orchestrator.core.futures import Drive
from orchestrator.core.state import RunState
from orchestrator.journal.live import LiveRun
from orchestrator.journal.past import is_news, read_past
from orchestrator.journal.store import RunStore
from orchestrator.views.outlook import in_one_line

FUTURES_AT_START_MAX = 60
STAGES_AT_START_MAX = 8_000
CPU_S_MAX = 0.4


async def look_ahead(
    run: LiveRun, store: RunStore, invocation: Invocation, audience: Audience, *, now: float
) -> None:
    """Two events at most: what was learned, and what is expected."""
    await _learn(run, store, audience, now)
    await _foresee(run, invocation, audience, now)


async def _learn(run: LiveRun, store: RunStore, audience: Audience, now: float) -> None:
    past = read_past(store, run.state.project)
    for unread in past.unread:
        audience.say("history of another run was not read", file=unread)

    def news(state: RunState) -> Sequence[KnownEvent]:
        if not past.samples or not is_news(past, state.history):
            return ()
        return (HistoryLoaded(samples=past.samples, runs=past.runs),)

    await run.commit(news, now=now)


async def _foresee(run: LiveRun, invocation: Invocation, audience: Audience, now: float) -> None:
    if run.state.is_settled:
        return
    try:
        made = _bounded(run.state, invocation, now)
    except Exception as fault:  # noqa: BLE001 - it is computed on copies: nothing else is harmed
        audience.say("no forecast was made", error=f"{type(fault).__name__}: {fault}")
        return
    if made is None:
        audience.say(
            "no forecast at the start of a run as large as this: `orchestrator forecast` takes"
            " its time for one"
        )
        return
    await run.commit(lambda _: (made,), now=now)
    audience.say("forecast", expected=in_one_line(made))


def _bounded(state: RunState, invocation: Invocation, now: float) -> ForecastMade | None:
    """None where it would keep the run waiting."""
    count = min(FUTURES_AT_START_MAX, futures_that_fit(state, STAGES_AT_START_MAX))
    if count < FUTURES_MIN:
        return None
    drive = Drive(
        max_concurrent=invocation.max_concurrent or state.settings.max_concurrent,
        utilization=invocation.utilization,
    )
    ends_at = time.process_time() + CPU_S_MAX
    seen = foresee(
        state, now=now, drive=drive, count=count, enough=lambda: time.process_time() > ends_at
    )
    return seen.as_event() if len(seen.every) >= FUTURES_MIN else None
