"""How a driver ends before its run does: by a signal, told to stop, or while it waits.

SIGTERM and SIGHUP end it at once, and the children run on. The first Ctrl-C waits a
while for results; the second ends the children. ``stop`` is an event of the run.
"""

import math
import signal
from dataclasses import dataclass

import trio

from drivers.headless.outside import RunEnd
from orchestrator.core import resources
from orchestrator.core.errors import ExitStatus
from orchestrator.core.plan import Plan
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.views.moments import clock

_AT_ONCE = frozenset({signal.SIGTERM, signal.SIGHUP})


@dataclass(slots=True)
class Closing:
    """Nothing new starts while ``how`` is set."""

    how: str = ""
    """``drain``: results are waited for; ``now``: the children are told to stop."""
    ends_at: float = math.inf
    """On trio's clock: what is still out then is left to the next driver."""
    number: int | None = None
    """The last signal."""

    def signalled(self, number: int, settings: Settings) -> None:
        self.number = number
        if number != signal.SIGINT:
            return
        if not self.how:
            self.how = "drain"
            self.ends_at = trio.current_time() + settings.drain_s
        elif self.how == "drain":
            self.how = "now"
            ladder_s = settings.interrupt_wait_s + settings.terminate_wait_s
            self.ends_at = trio.current_time() + 2 * ladder_s + 5.0

    def in_words(self, settings: Settings) -> str:
        """What the last interrupt has led to, and what another one would do."""
        if self.how == "drain":
            return f"waiting up to {settings.drain_s:g} s for results; Ctrl-C again stops them all"
        return "stopping what is at work; the next run-headless resumes it"

    def end(self, *, is_busy: bool) -> RunEnd | None:
        """The driver's end, where it is due."""
        if self.number in _AT_ONCE:
            return _end_by(self.number)
        if self.how and (not is_busy or trio.current_time() >= self.ends_at):
            return _end_by(self.number or signal.SIGINT)
        return None


def _end_by(number: int) -> RunEnd:
    name = signal.Signals(number).name
    return RunEnd(reason=f"signal {name}", exit_status=128 + number, signal=number)


def end_of_waiting(state: RunState, due: Plan, now: float, *, wait: bool) -> RunEnd | None:
    """Where nothing of ours is out: whether to go on waiting for time, or for people's hands.

    A stage that ``next`` gave out is never touched; once its time is over nobody may come back.
    """
    if due.wake_at is not None:
        if wait:
            return None
        is_hosts = due.limited_by in resources.NAMES
        why = f"{resources.why(due.limited_by, state.settings)}, " if is_hosts else ""
        if due.limited_by == "cooldown":
            why = f"{state.cooldown_reason}; "
        when = "later" if is_hosts else f"at {clock(due.wake_at)}"
        reason = f"{due.limited_by}: {why}come back {when}"
        return RunEnd(reason=reason, exit_status=ExitStatus.STOPPED)
    by_hand = [lease for lease in state.in_flight.values() if lease.is_interactive]
    if not by_hand:
        return None
    names = ", ".join(lease.work_item_id for lease in by_hand)
    if not wait:
        reason = f"{names}: done by hand, come back when the result is recorded"
        return RunEnd(reason=reason, exit_status=ExitStatus.STOPPED)
    if all(now >= lease.dispatched_at + lease.timeout_s for lease in by_hand):
        reason = (
            f"blocked_on_orphaned_dispatches: {names} were taken by hand and are overdue: record "
            f"a result, or take them over with next --resume"
        )
        return RunEnd(reason=reason, exit_status=ExitStatus.BLOCKED)
    return None
