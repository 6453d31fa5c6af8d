"""The present content of a worktree as a tree object, and what it says.

Invariant: the worktree's own index and its lock are never touched.  An agent's git may be
at work in it, and what it has staged stays as it is.
"""

import os
import re
import shutil
import stat
import tempfile
from typing import NamedTuple

from adapters.workspace.install import without_install
from adapters.workspace.invoke import Git, GitFault, Running, shown
from adapters.workspace.repository import commit_tree
from adapters.workspace.worktree import Worktree

SCANNED_BYTES_MAX = 4 * 1024 * 1024
"""Of one file, when it is searched for conflict markers."""

_NO_COMMIT = re.compile(r"error: '.*' does not have a commit checked out")


def take(worktree: Worktree, running: Running | None = None) -> str:
    """The tree of all tracked files, and of untracked ones that are not ignored."""
    with tempfile.TemporaryDirectory(prefix="orchestrator-index-") as scratch:
        index = os.path.join(scratch, "index")
        git = worktree.git(index=index, running=running)
        try:
            # With its times: git tells by them which files it must look into again.
            shutil.copy2(os.path.join(worktree.admin_dir, "index"), index)
        except FileNotFoundError:
            git.ask("read-tree", "HEAD")  # a branch without commits: everything is new
        try:
            return _add_all(git, worktree)
        except GitFault as fault:
            if "index file" not in fault.stderr:
                raise
        os.unlink(index)  # it is damaged: git's own cache, which HEAD can stand in for
        git.ask("read-tree", "HEAD")
        return _add_all(git, worktree)


def _add_all(git: Git, worktree: Worktree) -> str:
    sparse = os.path.exists(os.path.join(worktree.admin_dir, "info", "sparse-checkout"))
    answer = git.ask("add", "--all", "--ignore-errors", *(["--sparse"] if sparse else []))
    if answer.status and not _only_empty_repositories(answer.stderr):
        raise GitFault("add", worktree.path, answer.status, answer.stderr)
    return git.line("write-tree")


def _only_empty_repositories(stderr: str) -> bool:
    """A repository inside the worktree that has no commit yet holds nothing git can keep."""
    complaints = [line for line in stderr.splitlines() if line.startswith(("error:", "fatal:"))]
    return bool(complaints) and all(_NO_COMMIT.fullmatch(line) for line in complaints)


def keep(
    worktree: Worktree, ref: str, message: str, running: Running | None = None
) -> tuple[str, str]:
    """The present content as a commit on HEAD, named by ``ref`` alone.  Returns commit and tree."""
    tree = take(worktree, running)
    git = worktree.git(running=running)
    try:
        commit = commit_tree(git, tree, ["HEAD"], message)
    except GitFault as fault:
        if "not a valid object name" not in fault.stderr.lower():
            raise
        commit = commit_tree(git, tree, [], message)  # HEAD is on a branch without commits
    # With a log: what the ref held before, should there be any, stays reachable.
    git("update-ref", "--create-reflog", ref, commit)
    return commit, tree


class Change(NamedTuple):
    status: str
    """``A``, ``M``, ``D``, ``T``."""
    mode: int
    before: str
    """The blob's id; zeros where there was none."""
    name: bytes


def changes(git: Git, before: str, after: str) -> list[Change]:
    """What differs between two trees, in order of names."""
    out = git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after)
    fields = out.split(b"\0")
    found = []
    for facts, name in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, blob, _, status = facts.decode().split(" ")
        found.append(Change(status[0], int(mode, 8), blob, name))
    return found


def diff(
    worktree: Worktree,
    start_commit: str,
    chars_max: int,
    running: Running | None = None,
    *,
    installed: str = "",
) -> str:
    """A stat and the patch from ``start_commit`` to the present content, cut at ``chars_max``."""
    git = worktree.git(running=running)
    tree = without_install(git, take(worktree, running), installed)
    # A character is at most four bytes, and what is cut off here is cut off below as well.
    out, is_more = git.head(
        "diff-tree", "-r", "--patch-with-stat", "--stat=100", "--find-renames", "--no-ext-diff",
        "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", start_commit, tree,
        bytes_max=4 * chars_max,
    )  # fmt: skip
    text = out.decode("utf-8", "replace")
    if len(text) <= chars_max and not is_more:
        return text
    note = "\n[the patch goes on: it is cut here]\n"
    return text[: max(0, chars_max - len(note))] + note


def conflict_markers(
    worktree: Worktree, tree_before: str, running: Running | None = None
) -> tuple[str, ...]:
    """Files changed since ``tree_before`` that now hold a whole conflict, and did not before."""
    git = worktree.git(running=running)
    changed = changes(git, tree_before, take(worktree, running))
    return tuple(
        shown(change.name)
        for change in changed
        if change.status != "D"
        and stat.S_ISREG(change.mode)
        and has_conflict(_read(os.path.join(os.fsencode(worktree.path), change.name)))
        and not (change.status == "M" and has_conflict(git("cat-file", "blob", change.before)))
    )


def has_conflict(data: bytes) -> bool:
    """The three markers of one conflict, in order, each at the start of a line."""
    if b"<<<<<<< " not in data:
        return False
    wanted = 0
    for line in data.split(b"\n"):
        if line.startswith(b"<<<<<<< "):
            wanted = 1
        elif wanted == 1 and line.rstrip(b"\r") == b"=======":
            wanted = 2
        elif wanted == 2 and line.startswith(b">>>>>>> "):
            return True
    return False


def _read(path: bytes) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""  # changed again since the snapshot: the next look sees it
    with open(file, "rb") as opened:
        return opened.read(SCANNED_BYTES_MAX)
