"""One family of errors, by whose fault.  An expected failure is a value, not one of these.

Each carries what a person is shown: what happened, to what, and what to do next.
"""

import errno
from collections.abc import Mapping
from enum import IntEnum

HOUSE_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
)
"""Trouble of the whole machine, which every other dispatch would meet too."""

STARVED_ERRNOS = frozenset({errno.EAGAIN, errno.ENOMEM})
STARVED_WORDS = (
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "can't start new thread",
    "unable to create thread",
)
"""What a machine says that has no process, thread or memory to spare: mostly for a moment."""

_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some of your quota there",
    errno.EROFS: "make that file system writable (`mount` shows it)",
    errno.EACCES: "give yourself the right to it (`ls -ld` shows whose it is)",
    errno.EPERM: "give yourself the right to it (`ls -ld` shows whose it is)",
    errno.EMFILE: "raise the limit with `ulimit -n 4096` in the shell that starts it, or with"
    " LimitNOFILE= in its service, or lower max_concurrent",
    errno.ENFILE: "end what holds files open (`lsof`), or raise fs.file-max",
    errno.EAGAIN: "raise the limit with `ulimit -u`, or lower max_concurrent",
    errno.ENOMEM: "free some memory, or lower max_concurrent",
    errno.EIO: "check the disk (`dmesg` says more)",
}


def in_full(error: OSError, what: str = "") -> str:
    """What happened, to what, and how to mend it, in one line.  ``what``: what was tried."""
    name = error.filename
    where = f": {_text(name)}" if name is not None and _text(name) not in what else ""
    said = f"{what}: {error.strerror or error}" if what else f"{error.strerror or error}"
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{said}{where}" + (f"; {remedy}, then run the same command again" if remedy else "")


def with_remedy(error: OSError, what: str, otherwise: str) -> str:
    """``what`` and why; then how to mend it, by what is known of such an error or ``otherwise``."""
    remedy = _REMEDIES.get(error.errno or 0, otherwise)
    return f"{what} ({error.strerror or error}): {remedy}"


def is_starved(problem: BaseException) -> bool:
    """It is waited out, and spends nothing: the machine had nothing to spare."""
    if isinstance(problem, OSError):
        return problem.errno in STARVED_ERRNOS
    if isinstance(problem, RuntimeError):  # how Python says it of a thread
        return any(words in str(problem) for words in STARVED_WORDS)
    return isinstance(problem, Starved | MemoryError)


def is_of_the_house(problem: BaseException) -> bool:
    """Trouble of the machine, and not of one task."""
    is_named = isinstance(problem, OSError) and problem.errno in HOUSE_ERRNOS
    return is_named or is_starved(problem)


def _text(name: object) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


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


class Starved(EnvironmentFault):
    """A process or a thread cannot be started for the moment: nothing about the task."""


class WorktreeGone(EnvironmentFault):
    """Somebody has removed a task's worktree while it was at work: no other try brings it back."""


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
