"""The lane ``engine:none``: how a deterministic stage is started, read and judged.

Invariant: only a whole result line makes a success; every other end is a failure that says
what happened.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from signal import Signals
from typing import Any

from adapters.execution.lanes import Command, Reader, StartAgain
from adapters.execution.lines import LineSplitter
from adapters.execution.steps.environment import for_commands
from adapters.execution.telling import telling_line
from orchestrator.core.model import Cause, ChildExit, Ending, ResultStatus, WorkItem
from orchestrator.core.settings import Project
from orchestrator.ports.execution import Observation, ResultSeen

PROGRAM = Path(__file__).with_name("__main__.py")
LINE_BYTES_MAX = 8 * 1024 * 1024
TAIL_CHARS_MAX = 4000


class StepsReader:
    """Keeps the result and the end of what the commands printed."""

    def __init__(self) -> None:
        self.result: dict[str, Any] | None = None
        self.tail = ""
        self.doing = ""
        """The command under way."""
        self.unreadable_count = 0
        self._lines = LineSplitter(LINE_BYTES_MAX)

    @property
    def oversize_count(self) -> int:
        return self._lines.oversize_count

    def feed(self, data: bytes) -> tuple[Observation, ...]:
        had_result = self.result is not None
        for line in self._lines.feed(data):
            self._read(line)
        return (ResultSeen(),) if self.result is not None and not had_result else ()

    def close(self) -> None:
        self._lines.close()

    def _read(self, line: bytes) -> None:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        match value:
            case {"type": "stage_result", "status": str(), **_rest}:
                self.result = value
            case {"type": "output", "text": str(text), **_rest}:
                self.tail = (self.tail + text)[-TAIL_CHARS_MAX:]
            case {"type": "step", "name": str(name), **rest}:
                self.doing = "" if "exit" in rest else name
            case _:
                self.unreadable_count += 1


class StepsLane:
    def __init__(self, project: Project, environ: Mapping[str, str]) -> None:
        """``environ`` is the driver's."""
        self._root = project.root
        self._pass_env = project.agent.pass_env
        self._environ = dict(environ)

    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        """Isolated, and from the repository's root: the worktree may not exist yet."""
        return Command(
            argv=(sys.executable, "-I", "-S", str(PROGRAM)),
            env=for_commands(self._environ, self._pass_env, work.env),
            cwd=self._root,
            stdin=prompt_file,
        )

    def reader(self, work: WorkItem) -> StepsReader:
        return StepsReader()

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending | StartAgain:
        seen = reader if isinstance(reader, StepsReader) else StepsReader()
        if seen.result is not None:
            return _answered(seen.result, seen.tail, exit)
        status, cause, error = _unanswered(seen, exit, stderr_tail)
        evidence = {"learnings": seen.tail} if cause is Cause.TIMEOUT and seen.tail else {}
        return Ending(
            status=status,
            cause=cause,
            error=error,
            raw_output=seen.tail or stderr_tail[-TAIL_CHARS_MAX:],
            evidence=evidence,
            exit=exit,
        )


def _answered(result: Mapping[str, Any], tail: str, ended: ChildExit) -> Ending:
    succeeded = result["status"] == ResultStatus.SUCCESS
    try:
        cause = None if succeeded else Cause(str(result.get("cause")))
    except ValueError:
        cause = Cause.INFRASTRUCTURE
    evidence = result.get("evidence")
    failed = ResultStatus.INTERRUPTED if cause is Cause.CRASH else ResultStatus.FAILURE
    return Ending(
        status=ResultStatus.SUCCESS if succeeded else failed,
        cause=cause,
        error="" if succeeded else str(result.get("error") or "it failed and did not say why"),
        structured_output=result.get("output"),
        raw_output=tail,
        evidence=evidence if isinstance(evidence, dict) else {},
        exit=ended,
    )


def _unanswered(
    seen: StepsReader, ended: ChildExit, stderr_tail: str
) -> tuple[ResultStatus, Cause, str]:
    doing = f" in the {seen.doing} command" if seen.doing else ""
    match ended.reason:
        case "spawn_failed":
            return ResultStatus.FAILURE, Cause.INFRASTRUCTURE, f"it did not start: {ended.error}"
        case "deadline":
            error = f"it ran{doing} beyond the stage's time limit of {ended.duration_s:.0f} s"
            return ResultStatus.TIMEOUT, Cause.TIMEOUT, error
        case "stopped":
            return ResultStatus.INTERRUPTED, Cause.INTERRUPTED, f"stopped{doing}"
        case _:
            line = telling_line(stderr_tail)
            said = f": {line}" if line else ""
            error = f"it ended{doing} without a result ({_how(ended)}){said}"
            return ResultStatus.INTERRUPTED, Cause.CRASH, error


def _how(ended: ChildExit) -> str:
    if ended.signal is not None:
        is_known = ended.signal in set(Signals)
        return Signals(ended.signal).name if is_known else f"signal {ended.signal}"
    if ended.reason == "shim_lost":
        return "its supervisor was killed"
    return f"exit {ended.code}"
