"""What the base already fails at: the same command, run on the commit the task started from.

Found only when something fails, and once per tree and command however many tasks ask: the
answer is kept in the run's directory.  Invariant: an answer that was not had is not kept.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from adapters.execution.steps.commands import Commands, Finished
from adapters.execution.steps.failing import Failing, Problems
from adapters.execution.steps.inputs import Inputs
from adapters.workspace import worktree as worktrees
from adapters.workspace.repository import Repository, locked_file
from orchestrator.given_file import open_file

BASELINE_TIMEOUT_S = 1800.0


class Base(NamedTuple):
    """How a command ended on the base."""

    status: int
    failed: list[str]
    could_not_run: bool = False
    note: str = ""
    """Why there is nothing to compare with."""


class Baseline:
    """The base of one task.  Its checkout is made when it is first needed."""

    def __init__(self, inputs: Inputs, commands: Commands) -> None:
        self._commands = commands
        self._repository = Repository.open(inputs.text("root"))
        self._start = inputs.text("start_commit")
        self._install = inputs.argv("install")
        self._timeout_s = inputs.number("baseline_timeout_s", BASELINE_TIMEOUT_S)
        self._cache_dir = os.path.join(inputs.text("run_dir"), "cache")
        self._beside = os.path.dirname(inputs.text("worktree"))
        self._tree = self._repository.resolve(f"{self._start}^{{tree}}")[0]

    def of(self, name: str, argv: list[str], read: Callable[[], Failing | Problems]) -> Base:
        if self._tree is None:
            return Base(0, [], note=f"the start commit {self._start[:12]} is gone")
        os.makedirs(self._cache_dir, exist_ok=True)
        key = hashlib.sha256(json.dumps([self._tree, argv, self._install]).encode()).hexdigest()
        kept = os.path.join(self._cache_dir, f"base-{key[:24]}.json")
        lock = os.path.join(self._cache_dir, f"base-{self._tree[:24]}.lock")
        # As long as it takes: another task is finding out the same. The stage's own
        # deadline bounds it.
        with locked_file(lock, "the base's test results", timeout_s=float("inf")):
            base = _load(kept)
            if base is None:
                base = self._find_out(name, argv, read)
                if not base.note:
                    _save(kept, base)
        return base

    def _find_out(self, name: str, argv: list[str], read: Callable[[], Failing | Problems]) -> Base:
        with self._checkout() as path:
            if self._install:
                ready = self._run("base-install", self._install, path)
                if ready.status:
                    return Base(0, [], note=f"install exited {ready.status}: {ready.telling_line}")
            reader = read()
            ended = self._run(f"base-{name}", argv, path, reader.feed)
        if ended.timed_out:
            return Base(0, [], note=f"it took more than {self._timeout_s:g} s")
        if ended.was_killed:
            return Base(0, [], note=f"it was killed by signal {ended.status - 128}")
        return Base(ended.status, reader.names() if ended.status else [], ended.could_not_run)

    def _run(
        self, name: str, argv: list[str], path: str, on_line: Callable[[str], None] | None = None
    ) -> Finished:
        return self._commands.run(name, argv, path, on_line=on_line, timeout_s=self._timeout_s)

    @contextmanager
    def _checkout(self) -> Iterator[str]:
        """Beside the task's worktree: what tools find by looking upwards is the same."""
        path = os.path.join(self._beside, f".base-{(self._tree or '')[:12]}")
        if os.path.lexists(path) and worktrees.begun(self._repository, path):
            worktrees.discard(self._repository, path)  # of one that was killed
        worktrees.add(self._repository, path, self._start)
        try:
            yield path
        finally:
            worktrees.discard(self._repository, path)


def _load(path: str) -> Base | None:
    try:
        with open(open_file(path), encoding="utf-8") as file:
            return Base(*json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def _save(path: str, base: Base) -> None:
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(base, file)
    os.replace(part, path)
