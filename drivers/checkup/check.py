"""One line of doctor's: what was looked at, how it is, and how to mend it."""

import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It runs, with a drawback that is said."""
    FAIL = "fail"
    """No run can work until it is mended."""


class Check(NamedTuple):
    name: str
    level: Level
    found: str
    mend: str = ""
    """Empty where all is well, or where ``found`` says it."""


def ok(name: str, found: str) -> Check:
    return Check(name, Level.OK, found)


def warn(name: str, found: str, *, mend: str) -> Check:
    return Check(name, Level.WARN, found, mend)


def fail(name: str, found: str, *, mend: str = "") -> Check:
    return Check(name, Level.FAIL, found, mend)


def output_of(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 20.0
) -> tuple[bool, str]:
    """Whether the program exits with 0, and the first line it says, or why it could not."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
        )
    except OSError as error:
        return False, (error.strerror or str(error)).lower()
    except subprocess.TimeoutExpired:
        return False, f"no answer in {timeout_s:g} s"
    lines = (done.stdout or done.stderr).strip().splitlines() or [f"exit {done.returncode}"]
    return done.returncode == 0, lines[0]
