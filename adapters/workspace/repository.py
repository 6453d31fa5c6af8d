"""The user's repository: what it is, what its names point to, who may change its worktrees.

Invariant: nothing here changes a branch of the user's or the files they work on.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from adapters.workspace.invoke import IDENTITY, Git, GitFault
from orchestrator.core.errors import EnvironmentFault, Usage

LOCK_TIMEOUT_S = 300.0
LOCK_POLL_S = 0.005
LOCK_POLL_S_MAX = 0.1


class Repository:
    """``root`` is its top directory; ``common_dir`` is shared by all its worktrees."""

    def __init__(self, root: str, common_dir: str) -> None:
        self.root = root
        self.common_dir = common_dir
        self.git = Git(root)

    @classmethod
    def open(cls, path: str) -> "Repository":
        """Raises Usage where ``path`` is not in a git working tree."""
        path = os.path.abspath(path)
        if not os.path.isdir(path):
            raise Usage(f"{path} is not a directory: name the repository's own directory")
        answer = Git(path).ask("rev-parse", "--show-toplevel", "--git-common-dir")
        if answer.status:
            raise _why_not_a_repository(path, answer.stderr)
        lines = os.fsdecode(answer.out).split("\n")
        if len(lines) != 3:  # two, each ended
            raise Usage(
                f"the path of {path!r} holds a line break, which git's lists of worktrees cannot"
                " tell from their own: move the repository"
            )
        root, common = lines[:2]
        return cls(root, os.path.realpath(os.path.join(path, common)))

    def resolve(self, *names: str) -> tuple[str | None, ...]:
        """The object ids of the names, None for each that does not exist.  One process."""
        wanted = "".join(f"{name}\n" for name in names)
        out = self.git("cat-file", "--batch-check=%(objectname)", stdin=os.fsencode(wanted))
        lines = out.decode("utf-8", "replace").split("\n")[:-1]
        return tuple(None if line.endswith((" missing", " ambiguous")) else line for line in lines)

    def is_ancestor(self, ancestor: str, commit: str) -> bool:
        answer = self.git.ask("merge-base", "--is-ancestor", ancestor, commit)
        if answer.status > 1:
            raise GitFault("merge-base", self.root, answer.status, answer.stderr)
        return answer.status == 0

    def update_refs(self, *changes: tuple[str, str, str]) -> None:
        """Set each (ref, new id, old id) at once, or none.  "" as old id: it must not exist."""
        lines = (f"update {ref}\0{new}\0{old or '0' * len(new)}\0" for ref, new, old in changes)
        self.git("update-ref", "--stdin", "-z", stdin=os.fsencode("".join(lines)))

    def exclude(self, directory: str) -> None:
        """Keep ``directory`` out of the repository's status, by its own exclude file."""
        inside = os.path.relpath(directory, self.root)
        if inside.startswith(os.pardir) or inside == os.curdir:
            return
        pattern = f"/{inside}/"
        path = os.path.join(self.common_dir, "info", "exclude")
        with self.locked():
            try:
                with open(path, encoding="utf-8", errors="surrogateescape") as file:
                    text = file.read()
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                text = ""
            if pattern not in text.split("\n"):
                lead = "" if not text or text.endswith("\n") else "\n"
                with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(f"{lead}{pattern}\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold what makes and removes worktrees: one process at a time per repository."""
        path = os.path.join(self.own_dir(), "lock")
        with locked_file(path, f"the lock of {self.root}"):
            yield

    def own_dir(self) -> str:
        """Ours, beside git's files."""
        path = os.path.join(self.common_dir, "orchestrator")
        os.makedirs(path, exist_ok=True)
        return path


@contextmanager
def locked_file(path: str, what: str, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """A lock that the kernel drops with its holder."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + timeout_s
        pause_s = LOCK_POLL_S
        while not _try_lock(file, path):
            if time.monotonic() > deadline:
                raise EnvironmentFault(
                    f"{what} ({path}) was held by another process for {timeout_s:g} s:"
                    " see what it waits for"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOCK_POLL_S_MAX)
        yield
    finally:
        os.close(file)


def _try_lock(file: int, path: str) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be locked ({error.strerror}): keep the repository on a file system"
            " with flock"
        ) from error
    return True


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """A commit object with the user's identity, or ours where they have configured none."""
    args = ["commit-tree", tree]
    for parent in parents:
        args += ["-p", parent]
    stdin = message.encode()
    answer = git.ask(*args, stdin=stdin)
    if answer.status and "auto-detection is disabled" in answer.stderr:
        answer = git.ask(*args, stdin=stdin, env=IDENTITY)
    if answer.status:
        raise GitFault("commit-tree", git.cwd, answer.status, answer.stderr)
    return answer.out.decode().strip()


class Inspection(NamedTuple):
    """A repository that a run can start from."""

    root: str
    base_commit: str
    notes: tuple[str, ...]
    """For a person, one line each."""


def inspect_repository(
    path: str, *, base: str = "HEAD", branch_prefix: str = "orchestrator"
) -> Inspection:
    """Look whether a run can be made here.  Changes nothing.

    ``branch_prefix``: what all branches of the run will stand below, as far as it is known.

    Raises Usage where it is no repository, has no commit, lacks the base, or has a branch that
    blocks ours; EnvironmentFault where git cannot work.
    """
    repository = Repository.open(path)
    outer = _prefixes(branch_prefix)
    head, branch, commit, *blocking = repository.resolve(
        "HEAD^{commit}",
        f"refs/heads/{base}^{{commit}}",
        f"{base}^{{commit}}",
        *(f"refs/heads/{name}" for name in outer),
    )
    root, commit = repository.root, branch or commit
    if head is None and commit is None:
        raise Usage(f"{root} has no commits: commit something for runs to start from")
    if commit is None:
        raise Usage(
            f"{root} has no branch or commit {base!r}: set base in [git] of the project file,"
            " or fetch it"
        )
    for name, found in zip(outer, blocking, strict=True):
        if found is not None:
            raise Usage(blocked_by(name, f"{branch_prefix}/…", root))
    dirty = repository.git("status", "--porcelain", "-z", "--untracked-files=normal")
    notes = []
    if dirty:
        count = sum(1 for entry in dirty.split(b"\0") if entry)
        notes.append(
            f"{root} has uncommitted changes ({count}): they are not part of the run,"
            f" which starts from {commit[:12]}"
        )
    return Inspection(root, commit, tuple(notes))


def blocked_by(branch: str, wanted: str, root: str) -> str:
    return (
        f"the branch {branch!r} in {root} blocks {wanted} (a branch cannot also be a directory"
        f" of branches): rename it (git branch -m {branch} NAME), or set branch_prefix in [git]"
        " of the project file"
    )


def _prefixes(branch: str) -> list[str]:
    """``a/b`` -> ``a``, ``a/b``: a branch of any of these names is in the way of ``a/b/…``."""
    parts = branch.split("/") if branch else []
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _why_not_a_repository(path: str, stderr: str) -> Usage | EnvironmentFault:
    if "dubious ownership" in stderr:
        return EnvironmentFault(
            f"git does not trust {path}, which another user owns:"
            f" git config --global --add safe.directory {path}"
        )
    if "must be run in a work tree" in stderr:
        return Usage(f"{path} is a bare repository: use a clone of it with a working tree")
    if "not a git repository" in stderr:
        return Usage(f"{path} is not a git repository: run git init there, or name another")
    return GitFault("rev-parse", path, 128, stderr)
