"""What follows what: one row for every stage and every cause.

Only RETRY, IMPLEMENT and SEND_BACK spend an attempt: they are verdicts about the work.
"""

from collections.abc import Mapping
from enum import Enum, auto

from orchestrator.core.model import Cause, Stage


class Follow(Enum):
    RETRY = auto()
    """The same stage again, one attempt spent."""
    IMPLEMENT = auto()
    """Back to implement, one of its attempts spent."""
    SEND_BACK = auto()
    """Back to implement by review, at most ``send_backs_max`` times."""
    HOLD = auto()
    """A person has to look."""
    REPAIR = auto()
    """The same attempt after a growing delay and the reset command, at most
    ``infrastructure_retries_max`` times."""
    ROTATE = auto()
    """The same attempt in a fresh session, at most ``rotations_max`` times: then it is spent."""
    AGAIN = auto()
    """The same attempt, at once; after a growing delay where it dies again and again."""
    FEWER = auto()
    """The same attempt, after a growing delay, with one child fewer beside it for a while."""
    MORE_MONEY = auto()
    """The same attempt, resumed once every budget has more for it."""
    WAIT_LIMIT = auto()
    """The same attempt, once the account's limit is over; nothing else starts before."""
    WAIT_OUTAGE = auto()
    """The same attempt, after a growing delay."""
    PAUSE = auto()
    """The same attempt, once a person has mended what every dispatch would meet."""


_SAME_FOR_ALL: Mapping[Cause, Follow] = {
    Cause.INVALID_OUTPUT: Follow.RETRY,
    Cause.TIMEOUT: Follow.RETRY,
    Cause.WORK_ERROR: Follow.RETRY,
    Cause.NO_CHANGE: Follow.RETRY,
    Cause.CONFLICT_MARKERS: Follow.RETRY,
    Cause.WROTE_FILES: Follow.RETRY,
    Cause.TESTS_FAILED: Follow.IMPLEMENT,
    Cause.EMPTY_CHANGE: Follow.IMPLEMENT,
    Cause.INNER_REPOSITORY: Follow.IMPLEMENT,
    Cause.REJECTED: Follow.SEND_BACK,
    Cause.NOT_FEASIBLE: Follow.HOLD,
    Cause.MERGE_CONFLICT: Follow.HOLD,
    Cause.WORKTREE_GONE: Follow.HOLD,
    Cause.INFRASTRUCTURE: Follow.REPAIR,
    Cause.CRASH: Follow.AGAIN,
    Cause.OUT_OF_MEMORY: Follow.FEWER,
    Cause.SESSION_LOST: Follow.ROTATE,
    Cause.INTERRUPTED: Follow.AGAIN,
    Cause.BUDGET: Follow.MORE_MONEY,
    Cause.LIMIT: Follow.WAIT_LIMIT,
    Cause.OUTAGE: Follow.WAIT_OUTAGE,
    Cause.AUTH: Follow.PAUSE,
    Cause.BILLING: Follow.PAUSE,
    Cause.MISCONFIGURED: Follow.PAUSE,
}

CRASHES = frozenset({Cause.CRASH, Cause.OUT_OF_MEMORY})
"""Deaths in the middle of an attempt: ``dispatches_max`` bounds them together."""

_OWN_WAY: Mapping[tuple[Stage, Cause], Follow] = {
    (Stage.TEST, Cause.TIMEOUT): Follow.IMPLEMENT,
    (Stage.INTAKE, Cause.MISCONFIGURED): Follow.HOLD,  # what stands in the way of one task
    (Stage.INTAKE, Cause.TIMEOUT): Follow.REPAIR,
    (Stage.DELIVER, Cause.TIMEOUT): Follow.REPAIR,
    (Stage.INTAKE, Cause.INVALID_OUTPUT): Follow.REPAIR,
    (Stage.TEST, Cause.INVALID_OUTPUT): Follow.REPAIR,
    (Stage.DELIVER, Cause.INVALID_OUTPUT): Follow.REPAIR,
    (Stage.INTAKE, Cause.WORK_ERROR): Follow.REPAIR,
    (Stage.TEST, Cause.WORK_ERROR): Follow.REPAIR,
    (Stage.DELIVER, Cause.WORK_ERROR): Follow.REPAIR,
}

FOLLOWS: Mapping[tuple[Stage, Cause], Follow] = {
    (stage, cause): _OWN_WAY.get((stage, cause), follow)
    for stage in Stage
    for cause, follow in _SAME_FOR_ALL.items()
}
