"""The endings that no lane makes: of what did not start, and of what broke around a child."""

import errno
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from adapters.execution.stems import ExitRecord
from orchestrator.core.model import (
    ENGINE_LANE,
    Cause,
    ChildExit,
    Ending,
    ResultStatus,
    WorkItem,
)

PASSING = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)
"""What keeps a child from being started now, and not for ever."""


def the_one(fault: Exception) -> Exception:
    while isinstance(fault, ExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def not_started(work: WorkItem, error: str, number: int) -> Ending:
    """The child, or even its shim, could not be started."""
    if number in PASSING:
        return ending_of(Cause.CRASH, error)
    if work.lane == ENGINE_LANE:
        return ending_of(Cause.INFRASTRUCTURE, error)
    if os.path.realpath(work.cwd) != work.cwd or not os.path.isdir(work.cwd):
        gone = f"{work.cwd} is gone, where the task was at work: requeue it to make it anew"
        return ending_of(Cause.WORKTREE_GONE, gone)
    return ending_of(Cause.MISCONFIGURED, error)


def ending_of(cause: Cause, error: str, exit_: ChildExit = ChildExit()) -> Ending:  # noqa: B008
    status = ResultStatus.INTERRUPTED if cause is Cause.CRASH else ResultStatus.FAILURE
    return Ending(status=status, cause=cause, error=error, exit=exit_)


def dated(
    ending: Ending,
    record: ExitRecord,
    exit_: ChildExit | None = None,
    evidence: Mapping[str, Any] = {},
) -> Ending:
    return msgspec.structs.replace(
        ending,
        evidence=ending.evidence | dict(evidence),
        exit=exit_ or record.child_exit,
        started_at=record.started_at,
        ended_at=record.ended_at,
    )
