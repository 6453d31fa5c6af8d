"""One linked worktree: found by what the repository knows of it, made, taken away.

Invariant: git is always told which worktree it works on, so that one whose ``.git`` file an
agent removed or replaced never makes it work on the user's own files instead; and what stands
at a worktree's path is taken for it only where no link leads there.
"""

import hashlib
import os
from typing import NamedTuple

from adapters.workspace.invoke import Git, GitFault, Running
from adapters.workspace.repository import Repository
from orchestrator.core.errors import WorktreeGone


class Worktree(NamedTuple):
    path: str
    admin_dir: str
    """The repository's own directory for it: HEAD, index."""

    def git(self, *, index: str | None = None, running: Running | None = None) -> Git:
        return Git(self.path, git_dir=self.admin_dir, index=index, running=running)

    def branch(self) -> str | None:
        """What HEAD names, None where it is detached.  The branch may not exist."""
        try:
            with open(os.path.join(self.admin_dir, "HEAD"), encoding="utf-8") as file:
                head = file.read(4096).strip()
        except (OSError, UnicodeDecodeError):
            return None
        return (
            head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None
        )

    def unlock_index(self) -> None:
        """Take away the lock file of a git that was killed; the caller owns the worktree."""
        for name in ("index.lock", "HEAD.lock"):
            _unlink(os.path.join(self.admin_dir, name))


def find(repository: Repository, path: str) -> Worktree | None:
    """The registered worktree at ``path``.  Its ``.git`` file is put back if it is missing."""
    pointer = os.path.join(path, ".git")
    if not is_directory(path):
        return None
    admin = _pointed_at(pointer)
    if admin is None or not _belongs(repository, admin, pointer):
        admin = _registered(repository, pointer)
    if admin is None:
        return None
    if not os.path.lexists(pointer):
        with open(pointer, "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"gitdir: {admin}\n")
    return Worktree(path, admin)


def get(repository: Repository, path: str) -> Worktree:
    """As find(); raises WorktreeGone where nobody may work there."""
    worktree = find(repository, path)
    if worktree is None:
        raise WorktreeGone(
            f"{path} {_what_it_is(path)} {repository.root}: see git worktree list; requeue the"
            " task to make it anew"
        )
    pointer = os.path.join(path, ".git")
    if not is_directory(pointer) and _pointed_at(pointer) != worktree.admin_dir:
        # An agent's git would work on what it leads to.  A directory is the agent's own.
        raise WorktreeGone(
            f"{pointer} leads elsewhere than to {worktree.admin_dir}, as git made it: put it back"
            " with git worktree repair, or requeue the task to make its worktree anew"
        )
    return worktree


def _what_it_is(path: str) -> str:
    if not os.path.lexists(path):
        return "is gone: it was a worktree of"
    if os.path.realpath(path) != os.path.abspath(path):
        return f"leads to {os.path.realpath(path)}: it was a worktree of"
    return "is not a worktree of"


def is_directory(path: str) -> bool:
    """A directory itself, not a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)


def link_below(root: str, path: str) -> str | None:
    """The first symbolic link on the way from ``root`` to ``path``, which is below it."""
    at = root
    for name in os.path.relpath(path, root).split(os.sep):
        at = os.path.join(at, name)
        if os.path.islink(at):
            return at
    return None


def add(repository: Repository, path: str, commit: str) -> Worktree:
    """A worktree with ``commit`` checked out, on no branch.  ``path`` is absent or empty.

    Killed in the middle it leaves what begun() tells, and discard() takes away.
    """
    with open(_marker(repository, path), "w", encoding="utf-8") as file:
        file.write(path)
    with repository.locked():
        args = ("worktree", "add", "--no-checkout", "--detach", path, commit)
        answer = repository.git.ask(*args)
        if answer.status:
            if _forget(repository, path):  # its directory was deleted by hand
                answer = repository.git.ask(*args)
            if answer.status:
                raise GitFault("worktree add", repository.root, answer.status, answer.stderr)
    worktree = get(repository, path)
    worktree.git()("reset", "--hard", "--quiet", commit)
    return worktree


def finish(repository: Repository, path: str) -> None:
    """What add() began is whole, and no scratch any more."""
    _unlink(_marker(repository, path))


def begun(repository: Repository, path: str) -> bool:
    """add() began at this path and was not followed by finish()."""
    return os.path.exists(_marker(repository, path))


def discard(repository: Repository, path: str) -> None:
    """Remove scratch that add() made, whatever is in it."""
    import shutil  # late: it loads every compressor

    def writable(remove: object, blocked: str, _: object) -> None:
        os.chmod(os.path.dirname(blocked), 0o700)
        (os.rmdir if os.path.isdir(blocked) and not os.path.islink(blocked) else os.unlink)(blocked)

    with repository.locked():
        if os.path.lexists(path):
            shutil.rmtree(path, onerror=writable)
        _forget(repository, path)
    finish(repository, path)


def _forget(repository: Repository, path: str) -> bool:
    """Take a worktree that is gone off the repository's list; False: it was not on it."""
    import shutil

    pointer = os.path.join(path, ".git")
    admin = None if os.path.lexists(pointer) else _registered(repository, pointer)
    if admin is not None:
        shutil.rmtree(admin)
    return admin is not None


def _marker(repository: Repository, path: str) -> str:
    name = hashlib.sha1(os.fsencode(os.path.abspath(path))).hexdigest()
    return os.path.join(repository.own_dir(), f"making-{name}")


def _pointed_at(pointer: str) -> str | None:
    """Where a worktree's ``.git`` file leads; None where it is no such file."""
    if not os.path.isfile(pointer):  # it may be a pipe, which nobody writes to
        return None
    try:
        with open(pointer, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(8192)
    except OSError:
        return None
    if not text.startswith("gitdir: "):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(pointer), text[8:].rstrip("\n")))


def _belongs(repository: Repository, admin: str, pointer: str) -> bool:
    of_repository = os.path.join(repository.common_dir, "worktrees")
    return os.path.realpath(os.path.dirname(admin)) == of_repository and _leads_to(admin, pointer)


def _leads_to(admin: str, pointer: str) -> bool:
    """git wrote where the worktree really is when it made it: a link put in the way since shows."""
    try:
        with open(
            os.path.join(admin, "gitdir"), encoding="utf-8", errors="surrogateescape"
        ) as file:
            text = file.read(8192).rstrip("\n")
    except OSError:
        return False
    return os.path.normpath(os.path.join(admin, text)) == _real(pointer)


def _registered(repository: Repository, pointer: str) -> str | None:
    of_repository = os.path.join(repository.common_dir, "worktrees")
    try:
        names = sorted(os.listdir(of_repository))
    except FileNotFoundError:
        return None
    admins = (os.path.join(of_repository, name) for name in names)
    return next((admin for admin in admins if _leads_to(admin, pointer)), None)


def _real(pointer: str) -> str:
    """Without following ``.git`` itself, which may be missing or anything."""
    return os.path.join(os.path.realpath(os.path.dirname(pointer)), os.path.basename(pointer))


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
