"""The worktrees of a run, as the driver needs them around a model stage.

Making a worktree, merging dependencies and delivering are deterministic stages:
they run as supervised children, not through this port.
"""

from typing import Protocol

from orchestrator.core.model import Checkpoint, Stage


class Workspace(Protocol):
    async def directory(self, worktree: str) -> str:
        """Where the worktree really is: a path without links, to work in.  Raises WorktreeGone
        where what stands there is not the directory that intake made."""
        ...

    async def tree(self, worktree: str) -> str:
        """The hash of the worktree's present content (tracked, and untracked but not ignored)."""
        ...

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        """Keep the present tree as a commit under refs/orchestrator/<run>/<task>/; branch and
        HEAD stay untouched.  ``number`` counts the task's recorded dispatches."""
        ...

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        """Files changed since ``tree_before`` that hold conflict markers left by git."""
        ...

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        """What the worktree's present content changes against ``start_commit``: a stat, then the
        patch, cut at ``chars_max`` with a line that says so.  A reviewer cannot run git.

        ``installed`` is intake's checkpoint: what that changes against its parent, and nobody has
        changed since, is no part of it.
        """
        ...

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        """Keep the present tree under refs/orchestrator/<run>/<task>/salvage-<number>."""
        ...

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        """Remove a completed task's worktree, if all in it is on its branch, or as intake's
        checkpoint ``installed`` keeps it.

        Returns "" when removed, otherwise why it was kept.
        """
        ...
