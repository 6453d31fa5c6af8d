"""Remove a completed task's worktree, when nothing would be lost.

Invariant: all that is in a removed worktree, other than files its ignore rules name, is
on the branch, or is as intake's checkpoint keeps it.  In doubt it is kept.  The directory of
a run's worktrees goes with the last.
"""

import os
from contextlib import suppress

from adapters.workspace import snapshot
from adapters.workspace.install import without_install
from adapters.workspace.invoke import shown
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import Worktree, find

_ONLY_ON_DISK = frozenset({b"??", b" M", b" D", b" T"})
"""In git's status: nothing else has been staged at that path."""


def remove_if_safe(repository: Repository, path: str, branch: str, installed: str = "") -> str:
    """Returns "" where the worktree is gone afterwards, otherwise why it was kept.

    ``installed``: the checkpoint of intake, "" where none is known.
    """
    if not os.path.lexists(path):
        return ""
    worktree = find(repository, path)
    if worktree is None:
        return f"{path} is not a worktree of {repository.root}: kept"
    with repository.locked():
        reason = _unsafe(repository, worktree, branch)
        dirty = [] if reason else _dirty(worktree)
        reason = reason or _not_kept_elsewhere(worktree, branch, dirty, installed)
        if reason:
            return f"{path} is kept: {reason}"
        _take_back(worktree, dirty)
        # Without --force git looks again by itself, in case something is still writing.
        answer = repository.git.ask("worktree", "remove", path)
        if answer.status and "containing submodules" in answer.stderr:  # all of them empty
            answer = repository.git.ask("worktree", "remove", "--force", path)
        if answer.status == 0 and os.path.dirname(path) != repository.root:
            with suppress(OSError):  # others stand in it
                os.rmdir(os.path.dirname(path))
    return "" if answer.status == 0 else f"{path} is kept: {answer.stderr.strip()}"


def _unsafe(repository: Repository, worktree: Worktree, branch: str) -> str:
    if not os.path.isfile(os.path.join(worktree.path, ".git")):
        return "it holds a repository of its own"
    if os.path.isdir(os.path.join(worktree.admin_dir, "modules")):
        return "it holds submodules, whose commits may be nowhere else"
    git = worktree.git()
    at = git.ask("rev-parse", "--verify", "--quiet", "HEAD").out.decode().strip()
    head, tip = repository.resolve(at or "HEAD^{absent}", f"refs/heads/{branch}^{{commit}}")
    if head is None:
        return "its HEAD is on no commit"
    if tip is None:
        return f"the branch {branch} does not exist"
    if head != tip and not repository.is_ancestor(head, tip):
        return f"its commit {head[:12]} is not on {branch}"
    if os.path.lexists(os.path.join(worktree.admin_dir, "locked")):
        return "it is locked; see git worktree list --verbose"
    return _unlooked(worktree, git("ls-files", "-v", "-s", "-z"))


def _dirty(worktree: Worktree) -> list[bytes]:
    """What is not as the branch has it: two letters, a blank, the name."""
    found = worktree.git()(
        "status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none",
        "--no-renames",
    )  # fmt: skip
    return [entry for entry in found.split(b"\0") if entry]


def _not_kept_elsewhere(worktree: Worktree, branch: str, dirty: list[bytes], installed: str) -> str:
    left = _as_install_left(worktree, installed) if dirty and installed else frozenset()
    others = [e[3:] for e in dirty if e[:2] not in _ONLY_ON_DISK or e[3:] not in left]
    if not others:
        return ""
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"not on {branch}: {', '.join(map(shown, others[:3]))}{more}"


def _as_install_left(worktree: Worktree, installed: str) -> frozenset[bytes]:
    """The names of what install made or changed, and nobody since; inner repositories aside."""
    git, tree = worktree.git(), snapshot.take(worktree)
    changed = snapshot.changes(git, without_install(git, tree, installed), tree)
    return frozenset(change.name for change in changed)


def _take_back(worktree: Worktree, dirty: list[bytes]) -> None:
    """Undo what install did: git removes a worktree only where its status is clean."""
    tracked = b"".join(entry[3:] + b"\0" for entry in dirty if entry[:2] != b"??")
    for entry in dirty:
        if entry[:2] == b"??":
            os.unlink(os.path.join(os.fsencode(worktree.path), entry[3:]))
    if tracked:
        worktree.git()("checkout-index", "--force", "-z", "--stdin", stdin=tracked)


def _unlooked(worktree: Worktree, listing: bytes) -> str:
    """What git's status says nothing about: files it was told to pass over, inner repositories."""
    for entry in filter(None, listing.split(b"\0")):
        facts, name = entry.split(b"\t", 1)
        tag, mode = facts.split(b" ")[:2]
        path = os.path.join(os.fsencode(worktree.path), name)
        if tag.islower() or (tag == b"S" and os.path.lexists(path)):
            return f"git was told to pass over {shown(name)}"
        if mode == b"160000" and os.path.isdir(path) and os.listdir(path):
            return f"it holds the repository {shown(name)}, whose commits may be nowhere else"
    return ""
