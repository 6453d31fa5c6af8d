"""Run the project's reset command before a stage is tried again, and lose no work by it.

Invariant: what the worktree held is under a ref before the command runs.
"""

from adapters.execution.steps.commands import Commands
from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.result import Result, failure


def reset(inputs: Inputs, commands: Commands, *, put_back: bool) -> Result | None:
    """A failure, or None.  ``put_back``: the files are the work that the stage is to judge, so
    those that the command changed or removed are there again afterwards."""
    argv = inputs.argv("reset")
    if not argv:
        return None
    from adapters.workspace import (
        snapshot,  # late: few stages are tried again
        worktree as worktrees,
    )
    from adapters.workspace.repository import Repository

    path, slug = inputs.text("worktree"), inputs.text("slug")
    worktree = worktrees.get(Repository.open(inputs.text("root")), path)
    tree = snapshot.take(worktree)
    ref = f"refs/orchestrator/{inputs.text('run_id')}/{slug}/salvage-{tree[:12]}"
    kept, _ = snapshot.keep(worktree, ref, f"{slug}: salvaged before the reset command\n")
    ended = commands.run("reset", argv, path)
    if ended.status:
        error = f"the reset command exited {ended.status}: {ended.telling_line}"
        return failure("infrastructure", error, reset_exit=ended.status, learnings=ended.tail)
    if put_back and snapshot.take(worktree) != tree:
        worktree.unlock_index()
        worktree.git()("restore", f"--source={kept}", "--worktree", "--", ":/")
    return None
