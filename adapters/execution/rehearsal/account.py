"""The account that all calls of a scenario share: its windows, and a limit that all of them meet.

What they share is on disk, in the config directory: calls are processes of their own.
"""

import fcntl
import os
import time
from typing import Any, NamedTuple


class Account(NamedTuple):
    """A subscription, whose windows the stream reports.  Without one nothing is reported."""

    five_hour: float = 0.0
    seven_day: float = 0.0
    status: str = "allowed"
    resets_in_s: float = 3600.0
    limit_at_call: int = 0
    """The how manieth call finds the window used up, counted over all tasks; 0: none does."""
    limit_s: float = 1.0
    """From that call to the reset that is announced."""
    late_s: float = 0.0
    """How long after its announced reset the limit goes on all the same."""

    def windows(self) -> dict[str, Any]:
        """A ``rate_limit_info`` for the stream."""
        now = int(time.time())
        resets_at = now + int(self.resets_in_s)
        five = {"utilization": self.five_hour, "resetsAt": resets_at, "status": self.status}
        seven = {"utilization": self.seven_day, "resetsAt": now + 5 * 86400, "status": "allowed"}
        return {
            "status": self.status,
            "resetsAt": resets_at,
            "rateLimitType": "five_hour",
            "isUsingOverage": False,
            "unifiedWindows": {"five_hour": five, "seven_day": seven},
        }

    def limited_until(self, config: str) -> float | None:
        """The reset that this call is told of, where it meets the limit; counts the call."""
        if not self.limit_at_call:
            return None
        path = os.path.join(config, "rehearsal", "account")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            moments = [float(line) for line in file]
            now = time.time()
            file.write(f"{now}\n")
        if len(moments) + 1 < self.limit_at_call:
            return None
        began = moments[self.limit_at_call - 1] if len(moments) >= self.limit_at_call else now
        resets_at = began + self.limit_s
        return resets_at if now < resets_at + self.late_s else None
