"""A Workspace in memory: worktrees are dicts, trees are hashes of them, refs are names.

It keeps the promises of tests/contract/test_workspace.py and none beside.
"""

import hashlib
from dataclasses import dataclass, field
from difflib import unified_diff
from fnmatch import fnmatch

import trio

from orchestrator.core.errors import WorktreeGone
from orchestrator.core.model import Checkpoint, Stage

Files = dict[str, tuple[bytes, bool]]
"""Name to content and executable bit."""


@dataclass
class FakeCommit:
    tree: str
    parent: str | None


@dataclass
class FakeWorktree:
    branch: str
    head: str
    """A commit: the branch's, unless somebody moved it."""
    files: Files = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def content(self) -> Files:
        return {
            name: file
            for name, file in sorted(self.files.items())
            if not any(fnmatch(name, pattern) for pattern in self.ignored)
        }


class FakeWorkspace:
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.worktrees: dict[str, FakeWorktree] = {}
        self.trees: dict[str, Files] = {}
        self.commits: dict[str, FakeCommit] = {}
        self.refs: dict[str, str] = {}

    def make(self, path: str, branch: str, files: Files) -> str:
        """What intake does.  Returns the start commit."""
        start = self.commit(self._store(files), None)
        self.refs[f"refs/heads/{branch}"] = start
        self.worktrees[path] = FakeWorktree(branch, start, dict(files))
        return start

    def commit(self, tree: str, parent: str | None) -> str:
        name = _hash(f"{tree} {parent}".encode())
        self.commits[name] = FakeCommit(tree, parent)
        return name

    async def directory(self, worktree: str) -> str:
        await trio.lowlevel.checkpoint()
        self._get(worktree)
        return worktree

    async def tree(self, worktree: str) -> str:
        await trio.lowlevel.checkpoint()
        return self._store(self._get(worktree).content())

    async def checkpoint(
        self, worktree: str, *, task_slug: str, stage: Stage, number: int
    ) -> Checkpoint:
        return await self._keep(worktree, f"{task_slug}/{number:02d}-{stage}")

    async def conflict_markers(self, worktree: str, tree_before: str) -> tuple[str, ...]:
        before, now = self.trees[tree_before], self.trees[await self.tree(worktree)]
        return tuple(
            name
            for name, (data, _) in now.items()
            if _has_conflict(data) and not _has_conflict(before.get(name, (b"", False))[0])
        )

    async def diff(
        self, worktree: str, start_commit: str, *, chars_max: int, installed: str = ""
    ) -> str:
        before = self.trees[self.commits[start_commit].tree]
        now = self._without_install(self.trees[await self.tree(worktree)], installed)
        names = sorted(
            name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
        )
        text = "".join(f" {name} | changed\n" for name in names)
        for name in names:
            old, new = (
                files.get(name, (b"", False))[0].decode().splitlines(keepends=True)
                for files in (before, now)
            )
            text += "".join(unified_diff(old, new, f"a/{name}", f"b/{name}"))
        note = "\n[cut here]\n"
        return text if len(text) <= chars_max else text[: max(0, chars_max - len(note))] + note

    async def salvage(self, worktree: str, *, task_slug: str, number: int) -> str:
        return (await self._keep(worktree, f"{task_slug}/salvage-{number}")).ref

    async def remove_if_safe(self, worktree: str, branch: str, *, installed: str = "") -> str:
        await trio.lowlevel.checkpoint()
        if worktree not in self.worktrees:
            return ""
        found = self.worktrees[worktree]
        tip = self.refs.get(f"refs/heads/{branch}")
        if tip is None or not self._contains(tip, found.head):
            return f"{worktree} is kept: its commit is not on {branch}"
        rest = self._store(self._without_install(found.content(), installed))
        if rest != self.commits[found.head].tree:
            return f"{worktree} is kept: not all of it is on {branch}"
        del self.worktrees[worktree]
        return ""

    async def _keep(self, worktree: str, name: str) -> Checkpoint:
        tree = await self.tree(worktree)
        ref = f"refs/orchestrator/{self.run_id}/{name}"
        self.refs[ref] = self.commit(tree, self._get(worktree).head)
        return Checkpoint(commit=self.refs[ref], tree=tree, ref=ref)

    def _get(self, worktree: str) -> FakeWorktree:
        if worktree not in self.worktrees:
            raise WorktreeGone(f"{worktree} is gone")
        return self.worktrees[worktree]

    def _store(self, files: Files) -> str:
        name = _hash(repr(sorted(files.items())).encode())
        self.trees[name] = dict(files)
        return name

    def _without_install(self, files: Files, installed: str) -> Files:
        """What nobody has changed since the commit ``installed`` is as it was before it."""
        if installed not in self.commits:
            return files
        commit = self.commits[installed]
        after = self.trees[commit.tree]
        before = self.trees[self.commits[commit.parent].tree] if commit.parent else after
        rest = {
            name: before.get(name) if files.get(name) == after.get(name) else files.get(name)
            for name in files.keys() | before.keys() | after.keys()
        }
        return {name: file for name, file in rest.items() if file is not None}

    def _contains(self, tip: str | None, commit: str) -> bool:
        while tip is not None and tip != commit:
            tip = self.commits[tip].parent
        return tip == commit


def _hash(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _has_conflict(data: bytes) -> bool:
    return all(
        b"\n" + marker in b"\n" + data for marker in (b"<<<<<<< ", b"=======\n", b">>>>>>> ")
    )
