"""What a simulated run must keep, whatever happens to it: the invariants of the design, by number.

Each is asserted where its name is used: by the witness, by the story, or by what the children do.
The core's own assertions, which stay on in production, are STATE.  Two hold in part only: what git
keeps of a worktree is not simulated (the workspace's contract tests hold it), and a cut of the
journal is made where a writer dies or the power goes (tests/property cuts it at every byte).
"""

from enum import StrEnum


class Promise(StrEnum):
    LIMIT = "1. one live lease per task, and never more children than may be"
    INTENT = "2. no child starts before its dispatch is durable"
    RESULTS = "3. no result is lost, and none is recorded twice or otherwise than it was"
    ONCE = "4. no dispatch runs twice, and nobody shares a worktree or a session"
    ORDER = "5. a task starts only after all that it depends on"
    ATTEMPTS = "6. crashes, kills and limits spend no attempt"
    NOBODY_LEFT = "7. nobody outlives the run, or what was to end it"
    END = "8. every task ends, or the run says what it waits for"
    MONEY = "9. the bill adds up, and no more is promised than a budget holds"
    REPLAY = "10. the journal gives the state that its driver had, wherever it was cut"
    APPEND = "11. the journal only grows, and its numbers have no gaps"
    PULSE = "12. a heartbeat is never older than it promised while its driver lives"
    ONE_DRIVER = "13. a second driver changes nothing"
    KEPT = "14. no prompt, result or stream is ever deleted"
    HEALTHY = "no stranger and no healthy child is signalled"
    WAITS = "no limit or pause is passed before its end, and no stage waits beside a free slot"
    BREAKERS = "no row of idle calls and no runaway goes on, and one goes first after the pause"
    STATE = "the fold's own assertions hold, and nothing refuses the journal"


class Violation(AssertionError):
    """A promise was broken."""

    def __init__(self, promise: Promise, what: str) -> None:
        super().__init__(f"{what} ({promise})")
        self.promise = promise
