"""The test stage: run the project's lint, typecheck and test commands, judge by the base.

Invariant: only what the base does not fail at is the work's fault; a command that cannot
run at all is nobody's.
"""

import shlex
from typing import Any, NamedTuple

from adapters.execution.steps.baseline import Base, Baseline
from adapters.execution.steps.commands import Commands, Finished
from adapters.execution.steps.failing import Failing, Problems
from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.reset import reset
from adapters.execution.steps.result import (
    TAIL_BYTES_MAX,
    Printer,
    Result,
    bounded,
    failure,
    success,
)
from adapters.workspace import worktree as worktrees
from adapters.workspace.repository import Repository

NAMES = ("lint", "typecheck", "test")
LISTED_MAX = 40
"""Failed tests that a retry is told by name."""


class Judged(NamedTuple):
    """One command against the base."""

    name: str
    argv: list[str]
    ended: Finished
    passed: int | None
    new: list[str]
    old: list[str]
    base: Base | None

    def proves_nothing(self) -> str:
        """How it fails on the base as well, and by the name of no test: no work can be seen in
        that.  "" where it says something."""
        if self.new or self.old != [_whole(self.argv)]:
            return ""
        how = f"fails on the base too (exit {self.ended.status})"
        return f"{shlex.join(self.argv)} {how}: {self.ended.telling_line}"

    def as_evidence(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "name": self.name,
            "argv": self.argv,
            "exit": self.ended.status,
            "duration_s": round(self.ended.duration_s, 3),
            "failed": len(self.new) + len(self.old),
        }
        if self.passed is not None:
            facts["passed"] = self.passed
        if self.base is not None:
            facts["base_exit"] = self.base.status
            if self.base.note:
                facts["base_note"] = self.base.note
        return facts


def check(inputs: Inputs, printer: Printer, commands: Commands) -> Result:
    repository = Repository.open(inputs.text("root"))
    if failed := reset(inputs, commands, put_back=True):
        return failed
    judged: list[Judged] = []
    for name in NAMES:
        if argv := inputs.argv(name):
            verdict = _judge(name, argv, inputs, commands, repository)
            if isinstance(verdict, Result):
                return verdict
            judged.append(verdict)
    return _conclude(judged, has_tests=bool(inputs.argv("test")))


def _judge(
    name: str, argv: list[str], inputs: Inputs, commands: Commands, repository: Repository
) -> Judged | Result:
    reader, worktree = _reader(name), inputs.text("worktree")
    worktrees.get(repository, worktree)
    ended = commands.run(name, argv, worktree, on_line=reader.feed)
    worktrees.get(repository, worktree)  # what ran may have put something else in its place
    if ended.status == 0:
        return Judged(name, argv, ended, reader.passed, [], [], None)
    if ended.was_killed:
        return failure(
            "infrastructure",
            f"the {name} command was killed by signal {ended.status - 128}",
            learnings=ended.tail,
        )
    base = Baseline(inputs, commands).of(name, argv, lambda: _reader(name))
    if ended.could_not_run and (base.could_not_run or base.note):
        return failure(
            "infrastructure",
            f"the {name} command cannot be run (exit {ended.status}): {ended.telling_line}."
            f" See that {argv[0]} is installed and on PATH",
        )
    whole = _whole(argv)
    failed = reader.names() or [whole]
    base_failed = set(base.failed or ([whole] if base.status else []))
    new = [test for test in failed if test not in base_failed]
    if not new and ended.status != base.status:
        new = [f"{whole} (exit {ended.status}, on the base {base.status})"]
    old = [test for test in failed if test in base_failed]
    return Judged(name, argv, ended, reader.passed, new, old, base)


def _whole(argv: list[str]) -> str:
    """What fails where no test is named."""
    return f"command: {shlex.join(argv)}"


def _reader(name: str) -> Failing | Problems:
    return Failing() if name == "test" else Problems()


def _conclude(judged: list[Judged], *, has_tests: bool) -> Result:
    new = [test for verdict in judged for test in verdict.new]
    old = [test for verdict in judged for test in verdict.old]
    evidence: dict[str, Any] = {
        "failed": bounded(new),
        "failed_count": len(new),
        "base_failed": bounded(old),
        "passed": sum(verdict.passed or 0 for verdict in judged),
        "commands": [verdict.as_evidence() for verdict in judged],
    }
    if blank := [said for verdict in judged if (said := verdict.proves_nothing())]:
        evidence["proves_nothing"] = "; ".join(bounded(blank))
    if not has_tests:
        evidence["note"] = "the project has no test command: nothing was tested"
    if not new:
        return success(evidence)
    return Result("tests_failed", _error(new, old), evidence | {"learnings": _learnings(judged)})


def _error(new: list[str], old: list[str]) -> str:
    fail = "check fails" if len(new) == 1 else "checks fail"
    named = ", ".join(name[:120] for name in new[:3]) + (", …" if len(new) > 3 else "")
    beside = f" (beside {len(old)} that the base fails at too)" if old else ""
    return f"{len(new)} {fail} that the base passes: {named}{beside}"


def _learnings(judged: list[Judged]) -> str:
    """What a retry is told: the names, then the end of each failed command's output."""
    failed = [verdict for verdict in judged if verdict.new]
    parts = []
    for verdict in failed:
        names = [f"- {name[:200]}" for name in verdict.new[:LISTED_MAX]]
        if len(verdict.new) > LISTED_MAX:
            names.append(f"- … and {len(verdict.new) - LISTED_MAX} more")
        head = f"{shlex.join(verdict.argv)} exited {verdict.ended.status}. Failing, and not before:"
        parts.append("\n".join([head, *names]))
    text = "\n\n".join(parts)[: TAIL_BYTES_MAX // 2]
    room = (TAIL_BYTES_MAX - len(text.encode()) - 64 * len(failed)) // len(failed)
    for verdict in failed:
        tail = verdict.ended.tail.encode()[-room:].decode("utf-8", "ignore")
        text += f"\n\nThe end of its output ({verdict.name}):\n{tail.strip()}"
    return text
