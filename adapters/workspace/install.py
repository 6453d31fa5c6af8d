"""Tell what a project's install command did to a worktree from the work that was done in it.

Invariant: a path counts as install's only while its content and mode are exactly as install
left them; whatever anybody changed since is the work's, whole.
"""

import os
import tempfile
from collections.abc import Iterator

from adapters.workspace.invoke import Git

MERGED, INSTALLED, WORKED, BEFORE = (b"%d" % stage for stage in range(4))
"""What git's index calls the stages of a path, as they are given to its merge here."""

Stages = dict[bytes, bytes]
"""By stage: mode and blob, as git writes them."""
Entries = dict[bytes, Stages]


def without_install(git: Git, tree: str, installed: str) -> str:
    """``tree`` with what install did taken back, where the work left it as it was.

    ``installed`` is the checkpoint of intake: what it changes against its parent, install did.
    "", or a commit that is gone: nothing is known of an install, and the tree is returned as it is.
    """
    if not installed:
        return tree
    wanted = f"{installed}^1^{{tree}}\n{installed}^{{tree}}\n"
    found = git("cat-file", "--batch-check=%(objectname)", stdin=wanted.encode()).decode().split()
    if len(found) != 2 or found[0] == found[1]:  # "… missing" has a word more
        return tree
    before, after = found
    with tempfile.TemporaryDirectory(prefix="orchestrator-index-") as scratch:
        env = {"GIT_INDEX_FILE": os.path.join(scratch, "index")}
        # A merge of whole files: from ``after`` on, the work is one side, taking back the other.
        merge = ("read-tree", "-i", "-m", "--aggressive", "--no-sparse-checkout")
        git(*merge, after, tree, before, env=env)
        entries = _entries(git("ls-files", "--stage", "-z", "--unmerged", env=env))
        if any(_is_taken_back(stages) for stages in entries.values()):
            entries = _entries(git("ls-files", "--stage", "-z", env=env))
        if entries:
            git("update-index", "-z", "--index-info", stdin=_settled(entries), env=env)
        return git("write-tree", env=env).decode().strip()


def _entries(listing: bytes) -> Entries:
    entries: Entries = {}
    for entry in filter(None, listing.split(b"\0")):
        facts, name = entry.split(b"\t", 1)
        blob, stage = facts.rsplit(b" ", 1)
        entries.setdefault(name, {})[stage] = blob
    return entries


def _is_taken_back(stages: Stages) -> bool:
    """Left as install had it, and yet not merged: a file stands where a directory is to be, or
    the other way round."""
    return MERGED not in stages and stages.get(INSTALLED) == stages.get(WORKED)


def _settled(entries: Entries) -> bytes:
    """What the merge left open: the work's where it changed the path, the base's otherwise.

    The base's gives way where the work needs its place.  Removals come first, so that a file may
    take the place of a directory.
    """
    needed = {
        name
        for name, stages in entries.items()
        if MERGED in stages or (WORKED in stages and not _is_taken_back(stages))
    }
    directories = {above for name in needed for above in _above(name)}
    removed, put = [], []
    for name, stages in entries.items():
        if MERGED in stages:
            continue
        blob = next(iter(stages.values())).split(b" ")[1]
        removed.append(b"0 %s\t%s\0" % (blob, name))
        if not _is_taken_back(stages):
            kept = stages.get(WORKED)
        elif name in directories or any(above in needed for above in _above(name)):
            kept = None
        else:
            kept = stages.get(BEFORE)
        if kept is not None:
            put.append(b"%s\t%s\0" % (kept, name))
    return b"".join([*removed, *put])


def _above(name: bytes) -> Iterator[bytes]:
    """The directories that a path is in."""
    end = name.find(b"/")
    while end >= 0:
        yield name[:end]
        end = name.find(b"/", end + 1)
