"""What a step's program prints: JSON lines, the last of them its result.

Invariant: a line is bounded, whatever a command or a repository puts into it.
The words are those of orchestrator.core.model, spelled here for a light start.
"""

import json
import sys
from typing import Any, Literal, NamedTuple, TextIO

OUTPUT_BYTES_MAX = 1024 * 1024
"""Of one command, passed on as it comes."""
TAIL_BYTES_MAX = 8 * 1024
NAMES_MAX = 200
NAME_CHARS_MAX = 300

Cause = Literal[
    "tests_failed",
    "empty_change",
    "inner_repository",
    "merge_conflict",
    "worktree_gone",
    "infrastructure",
    "misconfigured",
    "crash",
]
CAUSES: tuple[Cause, ...] = (
    "tests_failed",
    "empty_change",
    "inner_repository",
    "merge_conflict",
    "worktree_gone",
    "infrastructure",
    "misconfigured",
    "crash",
)


class Result(NamedTuple):
    cause: Cause | None
    """None: success."""
    error: str
    evidence: dict[str, Any]
    output: dict[str, Any] | None = None


def success(evidence: dict[str, Any], output: dict[str, Any] | None = None) -> Result:
    return Result(None, "", evidence, output)


def failure(cause: Cause, error: str, **evidence: Any) -> Result:
    return Result(cause, error, evidence)


class Printer:
    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def step(self, name: str, **facts: Any) -> None:
        self._line({"type": "step", "name": name, **facts})

    def output(self, name: str, text: str) -> None:
        self._line({"type": "output", "name": name, "text": text})

    def result(self, result: Result) -> None:
        self._line(
            {
                "type": "stage_result",
                "status": "failure" if result.cause else "success",
                "cause": result.cause,
                "error": result.error[:4000],
                "output": result.output,
                "evidence": result.evidence,
            }
        )

    def _line(self, value: dict[str, Any]) -> None:
        self._out.write(json.dumps(value) + "\n")
        self._out.flush()


def bounded(names: list[str]) -> list[str]:
    """The first names, each cut: what is left out is told by a count beside it."""
    return [name[:NAME_CHARS_MAX] for name in names[:NAMES_MAX]]
