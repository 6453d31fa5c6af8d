"""One family of errors, by whose fault.  An expected failure is a value, not one of these.

Each carries what a person is shown: what happened, to what, and what to do next.
"""

import errno
from enum import IntEnum

HOUSE_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
)
"""Trouble of the whole machine, which every other dispatch would meet too."""


class ExitStatus(IntEnum):
    """The statuses that INTERFACE promises; 128 + n follows signal n."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    STOPPED = 3
    BLOCKED = 4
    ENVIRONMENT = 5
    TASKS_FAILED = 6


class OrchestratorError(Exception):
    """Base of every error this project raises on purpose.  Its text is shown as one line."""

    exit_status: ExitStatus = ExitStatus.REFUSED


class Refused(OrchestratorError):
    """What was asked for cannot be done in this state; nothing has changed."""


class Usage(OrchestratorError):
    """The command line, or a file a person wrote, says something that means nothing."""

    exit_status = ExitStatus.USAGE


class Blocked(OrchestratorError):
    """Another driver is live, or holds leases that this one may not touch."""

    exit_status = ExitStatus.BLOCKED


class EnvironmentFault(OrchestratorError):
    """The machine cannot run it: a program is missing, a disk is full, a lock is not supported."""

    exit_status = ExitStatus.ENVIRONMENT


class JournalDamaged(EnvironmentFault):
    """A line in the middle of the journal cannot be read: it is refused, never skipped."""


class InvariantBroken(OrchestratorError):
    """An event does not fit the state it was folded into: a bug, or a damaged journal."""

    exit_status = ExitStatus.ENVIRONMENT

    def __str__(self) -> str:
        return (
            f"{super().__str__()}: the journal does not fit together, and nothing was changed:"
            " restore events.jsonl from a copy, or ask for help with it"
        )


class StaleReport(Refused):
    """A report does not answer the dispatch that is outstanding."""
