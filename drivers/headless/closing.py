"""How a driver ends before its run does: by a signal, or because it was told to stop.

SIGTERM and SIGHUP end it at once, and the children run on. The first Ctrl-C waits a
while for results; the second ends the children. ``stop`` is an event of the run.
"""

import math
import signal
from dataclasses import dataclass

import trio

from drivers.headless.outside import RunEnd
from orchestrator.core.settings import Settings

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
