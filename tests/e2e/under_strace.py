"""The program under strace, which lets single system calls fail or take long."""

from collections.abc import Sequence
from pathlib import Path

from tests.killpoints.required import needs_strace

INJECTED = "(INJECTED)"
DELAYED = "(DELAYED)"


def strace(
    log: Path, inject: str, *, paths: Sequence[Path] = (), also: Sequence[str] = ()
) -> list[str]:
    """What a command is run under.  The driver's own threads are held, its children are let go.

    ``inject``: as of strace(1).  ``paths``: only calls on these.  ``also``: calls to be logged.
    """
    needs_strace()
    calls = ",".join((inject.partition(":")[0], *also))
    narrowed = [word for path in paths for word in ("-P", str(path))]
    return [
        *("strace", "-f", "-b", "execve", "-y", "-e", "signal=none", "-o", str(log)),
        *(*narrowed, "-e", f"trace={calls}", "-e", f"inject={inject}"),
    ]
