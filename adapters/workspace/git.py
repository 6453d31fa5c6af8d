"""The driver's view of a run's worktrees, by git: the port's implementation.

Invariant: no commit and no file is lost.  Content is kept under refs of our own, and a
worktree is removed only when all in it is on its branch.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import outcome
import trio

from adapters.workspace import snapshot
from adapters.workspace.invoke import Running
from adapters.workspace.removal import remove_if_safe
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import Worktree, get
from orchestrator.core.model import Checkpoint, Stage

T = TypeVar("T")


class GitWorkspace:
    """The worktrees of one run on the repository at ``root``.

    Every method raises EnvironmentFault where the worktree is gone or git cannot work.
    """

    def __init__(self, root: str, run_id: str) -> None:
        self._root = root
        self._run_id = run_id
        self._opened: Repository | None = None

    async def directory(self, worktree: str) -> str:
        return await trio.to_thread.run_sync(self._directory, worktree)

    async def tree(self, worktree: str) -> str:
        return await _stoppable(lambda running: snapshot.take(self._get(worktree), running))

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        ref = self._ref(task_slug, f"{number:02d}-{stage}")
        message = f"{task_slug}: {stage}, checkpoint {number} of run {self._run_id}\n"
        return await self._keep(worktree, ref, message)

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        return await _stoppable(
            lambda running: snapshot.conflict_markers(self._get(worktree), tree_before, running)
        )

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        return await _stoppable(
            lambda running: snapshot.diff(
                self._get(worktree), start_commit, chars_max, running, installed=installed
            )
        )

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        ref = self._ref(task_slug, f"salvage-{number}")
        message = f"{task_slug}: salvaged before a fresh start in run {self._run_id}\n"
        return (await self._keep(worktree, ref, message)).ref

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        # Not stoppable: half a removal looks like deleted files.
        return await trio.to_thread.run_sync(
            lambda: remove_if_safe(self._repository(), worktree, branch, installed)
        )

    async def _keep(self, worktree: str, ref: str, message: str) -> Checkpoint:
        commit, tree = await _stoppable(
            lambda running: snapshot.keep(self._get(worktree), ref, message, running)
        )
        return Checkpoint(commit=commit, tree=tree, ref=ref)

    def _repository(self) -> Repository:
        if self._opened is None:
            self._opened = Repository.open(self._root)
        return self._opened

    def _directory(self, worktree: str) -> str:
        where = os.path.realpath(self._get(worktree).path)
        return self._get(where).path  # by this name too: it may have been replaced in between

    def _get(self, path: str) -> Worktree:
        return get(self._repository(), path)

    def _ref(self, task_slug: str, name: str) -> str:
        return f"refs/orchestrator/{self._run_id}/{task_slug}/{name}"


async def _stoppable(work: Callable[[Running], T]) -> T:
    """Do it in a thread; when cancelled, end the git that it waits for, and wait for that."""
    running = Running()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_cancel, running)
        done = await outcome.acapture(trio.to_thread.run_sync, work, running)
        nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint_if_cancelled()
    return done.unwrap()


async def _stop_on_cancel(running: Running) -> None:
    try:
        await trio.sleep_forever()
    finally:
        running.stop()
