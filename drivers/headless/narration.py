"""What the driver tells a person: one line per event, on stderr and in driver.log.

In the log and in pipes a line is key=value, on a terminal it is short (``spoken``).
Where stderr is driver.log already, it is written once.  No prompt and no agent's text ever
passes: values are short, on one line, of keys that hold none of that, and without any secret.
A reader that went away never ends the run.
"""

import os
import re
import select
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from drivers.headless.spoken import spoken
from orchestrator.core.errors import EnvironmentFault, in_full
from orchestrator.given_file import at_once

VALUE_CHARACTERS_MAX = 300
SECRET_CHARACTERS_MIN = 8
"""A shorter value is no secret, and hiding it would eat words."""

KEPT_SILENT = frozenset(
    {"prompt", "body", "learnings", "output", "structured_output", "raw_output", "text"}
)
"""Names under which prompts and agents' words travel in this program."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"sk-ant-[\w-]{8,}|gh[pousr]_\w{20,}|github_pat_\w{20,}")


def open_narration(
    log_path: Path, *, secrets: Collection[str], stderr: TextIO | None = sys.stderr
) -> FilteringBoundLogger:
    """``secrets``: values never to be shown.  Raises EnvironmentFault."""
    try:
        log = at_once(str(log_path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    except OSError as error:
        raise EnvironmentFault(in_full(error, f"cannot write {log_path}")) from error
    descriptors, terminals = [log], list[int]()
    if stderr is not None and not _same_file(stderr.fileno(), log):
        (terminals if stderr.isatty() else descriptors).append(stderr.fileno())
    return cast(
        FilteringBoundLogger,
        structlog.wrap_logger(
            _Tee(descriptors, terminals),
            processors=[_without_agent_text, _Redacted(secrets), _both_forms],
            wrapper_class=structlog.make_filtering_bound_logger("info"),
        ),
    )


def secrets_of(environ: Mapping[str, str]) -> frozenset[str]:
    """The values in an environment whose names say that they are secret."""
    return frozenset(value for name, value in environ.items() if _SECRET_NAME.search(name))


def _same_file(one: int, other: int) -> bool:
    try:
        a, b = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


class _Tee:
    """Writes whole lines to each descriptor that takes them now: a pipe that nobody reads, or a
    terminal that is stopped, costs its own copy and not the driver's time."""

    def __init__(self, descriptors: Collection[int], terminals: Collection[int]) -> None:
        self._descriptors = tuple(descriptors)
        self._terminals = tuple(terminals)

    def _write(self, *, whole: str, spoken: str | None) -> None:
        _write_to(self._descriptors, whole)
        if spoken is not None:
            _write_to(self._terminals, spoken)

    info = warning = error = critical = _write


def _write_to(descriptors: Collection[int], line: str) -> None:
    data = line.encode("utf-8", "backslashreplace") + b"\n"
    for descriptor in descriptors:
        with suppress(OSError):
            if _takes(descriptor):
                os.write(descriptor, data)


def _takes(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _without_agent_text(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {key: value for key, value in event.items() if key not in KEPT_SILENT}


class _Redacted:
    def __init__(self, secrets: Collection[str]) -> None:
        long_enough = [s for s in secrets if len(s) >= SECRET_CHARACTERS_MIN]
        # Longest first, so that a secret inside another leaves nothing of it.
        self._secrets = sorted(long_enough, key=len, reverse=True)

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        return {key: self._clean(value) for key, value in event.items()}

    def _clean(self, value: object) -> str:
        text = str(value)
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return _SECRET_SHAPE.sub("[secret]", text)


def _both_forms(_: WrappedLogger, level: str, event: EventDict) -> EventDict:
    """The whole as key=value, for files and pipes; and as a terminal has it."""
    at, what = datetime.now(UTC), _short(event.pop("event"))
    values = {key: _short(text) for key, text in event.items() if text not in ("", "None")}
    pairs = [f"{key}={_quoted(text)}" for key, text in values.items()]
    prefix = "note" if level == "info" else level
    return {
        "whole": " ".join([f"{prefix}: {at:%Y-%m-%dT%H:%M:%SZ} {what}", *pairs]),
        "spoken": spoken(what, values, at),
    }


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    cut = one_line[: VALUE_CHARACTERS_MAX - 1] + "…"
    printable = one_line if len(one_line) <= VALUE_CHARACTERS_MAX else cut
    return "".join(c if c.isprintable() else "?" for c in printable)


def _quoted(short: str) -> str:
    return f'"{short}"' if " " in short or not short else short
