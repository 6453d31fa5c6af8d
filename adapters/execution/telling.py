"""Of what a failed program printed, the one line that tells a person most.

Invariant: pure, and tolerant of everything; where no line says what failed it is the last one
that is not mere noise.
"""

import re

LINE_CHARS_MAX = 300
READ_CHARS_MAX = 2000
"""Of one line: a hostile program may print what an expression would take long for."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_NOISE = re.compile(
    r"^\[?(?:notice|warn(?:ing)?)\b|^npm (?:notice|warn)\b"
    r"|^npm (?:error|ERR!)(?: (?:code|path|errno|syscall|command failed)\b.*)?$"
    r"|A complete log of this run|subprocess-exited-with-error|This error originates"
    r"|^(?:note|hint|help|info):|^For more information about this error|\[end of output\]"
    r"|^Node\.js v\d|^\S*\s*\d+ ?%|^[\W_]*$",
    re.IGNORECASE,
)
"""Notices, frames, progress, and lines that only say that some other line says more."""

_SAYS_WHAT = re.compile(
    r"(?:^|[\s:])(?:fatal |internal |syntax )?error(?:\[\w+\]| TS\d+)?: \S"
    r"|^npm (?:error|ERR!) \S|^[\w.]*(?:Error|Exception): \S"
    r"|^fatal: \S|^FAILED \S|^thread '.*' panicked at |: (?:command )?not found$",
    re.IGNORECASE,
)
"""The first of them is the cause; what follows is often its consequence."""

_SAYS_THAT = re.compile(
    r"\b(?:error|errors|failed|failures?|exception|cannot|denied|no such)\b|\*\*\* ",
    re.IGNORECASE,
)
"""That something failed, at least.  The last of them sums up."""


def telling_line(output: str) -> str:
    """Without colours, no longer than 300 characters; empty where there is nothing."""
    lines = [
        line
        for raw in re.split(r"[\r\n]+", output)
        if (line := _COLOUR.sub("", raw[:READ_CHARS_MAX]).strip())
    ]
    worded = [line for line in lines if not _NOISE.search(line)]
    says_what = (line for line in worded if _SAYS_WHAT.search(line))
    says_that = (line for line in reversed(worded) if _SAYS_THAT.search(line))
    found = next(says_what, None) or next(says_that, None) or (worded or lines or [""])[-1]
    return found[:LINE_CHARS_MAX]
