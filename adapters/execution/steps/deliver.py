"""Make the branch hold exactly the tree that implement left, without what install did.

Invariant: the branch moves from the commit that was looked at, or not at all, and what it
held before stays reachable.  Nothing is pushed; files that tests wrote stay uncommitted.
"""

import os
from typing import Any

from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.result import Printer, Result, bounded, failure, success
from adapters.workspace import worktree as worktrees
from adapters.workspace.install import without_install
from adapters.workspace.invoke import GitFault, shown
from adapters.workspace.repository import Repository, commit_tree
from adapters.workspace.snapshot import Change, changes

GITLINK = 0o160000
INNER_NAMED_MAX = 5
_REBASING = ("rebase-merge", "rebase-apply")


def deliver(inputs: Inputs, printer: Printer) -> Result:
    repository = Repository.open(inputs.text("root"))
    branch, start = inputs.text("branch"), inputs.text("start_commit")
    checkpoint = inputs.values("checkpoint")
    kept = checkpoint.get("commit") or checkpoint.get("ref") or ""
    tip, start_tree, left, head = repository.resolve(
        f"refs/heads/{branch}^{{commit}}", f"{start}^{{tree}}", f"{kept}^{{tree}}", f"{kept}^1"
    )
    if start_tree is None or left is None:
        what = "start commit" if start_tree is None else "checkpoint of implement"
        return failure("infrastructure", f"the {what} is gone from {repository.root}")
    tree = without_install(repository.git, left, inputs.text("installed", ""))
    if tree == start_tree:
        beside = "" if tree == left else ", beside what the install command did"
        return failure("empty_change", f"the work changes nothing against {start[:12]}{beside}")
    changed = changes(repository.git, start_tree, tree)
    if inner := _inner_repositories(changed):
        # Their files are on no branch of this repository: delivered, they would be lost.
        names = ", ".join(inner[:INNER_NAMED_MAX])
        error = f"{names}: a git repository of its own; remove its .git, or the directory"
        return failure("inner_repository", error)
    parent = _parent(repository, start, tip, head)
    commit = parent
    if repository.resolve(f"{parent}^{{tree}}") != (tree,):
        commit = commit_tree(repository.git, tree, [parent], inputs.text("message"))
    if commit != tip:
        _move(repository, inputs, commit, tip)
    printer.step("branch", branch=branch, commit=commit)
    evidence = {
        "branch": branch,
        "commit": commit,
        "tree": tree,
        **_told(changed),
        **_settle(repository, inputs.text("worktree"), branch),
    }
    return success(evidence, {"branch": branch, "commit": commit})


def _parent(repository: Repository, start: str, tip: str | None, head: str | None) -> str:
    """The commit to build on: the branch, with what the agent committed; never beside the start.

    ``head`` is where the agent's HEAD was: elsewhere, if it made a branch of its own.
    """
    if tip is not None and repository.is_ancestor(start, tip):
        if head is not None and head != tip and repository.is_ancestor(tip, head):
            return head
        return tip
    if head is not None and repository.is_ancestor(start, head):
        return head
    return start


def _move(repository: Repository, inputs: Inputs, commit: str, tip: str | None) -> None:
    if tip is not None and not repository.is_ancestor(tip, commit):
        kept = f"{inputs.text('run_id')}/{inputs.text('slug')}/replaced-{tip[:12]}"
        repository.git("update-ref", f"refs/orchestrator/{kept}", tip)
    repository.update_refs((f"refs/heads/{inputs.text('branch')}", commit, tip or ""))


def _told(changed: list[Change]) -> dict[str, Any]:
    names = [shown(change.name) for change in changed]
    return {"files_changed": bounded(names), "files_changed_count": len(names)}


def _inner_repositories(changed: list[Change]) -> list[str]:
    """Repositories that the work has made; a submodule is declared, and is none."""
    if any(shown(change.name) == ".gitmodules" for change in changed):
        return []
    return [shown(c.name) for c in changed if c.mode == GITLINK and c.status == "A"]


def _settle(repository: Repository, path: str, branch: str) -> dict[str, str]:
    """Leave the worktree on its branch, its files as they are, whatever git was doing in it.

    The branch is delivered already: what fails here is told, and fails nothing.
    """
    worktree = worktrees.find(repository, path)
    if worktree is None:
        return {"worktree_note": f"{path} is gone"}
    worktree.unlock_index()
    git = worktree.git()
    try:
        if any(os.path.isdir(os.path.join(worktree.admin_dir, name)) for name in _REBASING):
            git("rebase", "--quit")
        if worktree.branch() != branch:
            git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        git("reset", "--mixed", "--quiet")
    except GitFault as fault:
        return {"worktree_note": str(fault)}
    return {}
