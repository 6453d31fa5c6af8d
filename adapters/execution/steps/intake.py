"""Make a task's worktree and branch, from the base or from what it depends on.

Invariant: until the worktree is finished it is scratch, and is made anew when a killed
intake runs again; from then on nothing here removes anything.  Branch and start ref are
made in one transaction: a branch with its start ref is ours.
"""

import os
import re
from typing import Any, NamedTuple

from adapters.execution.steps.commands import Commands
from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.reset import reset
from adapters.execution.steps.result import Printer, Result, bounded, failure, success
from adapters.workspace import worktree as worktrees
from adapters.workspace.invoke import GitFault, identity, shown
from adapters.workspace.repository import Repository, blocked_by
from adapters.workspace.worktree import Worktree

_BLOCKING = re.compile(r"'refs/heads/([^':]+)' exists; cannot create")


class Place(NamedTuple):
    """Where a task works, and what is there."""

    repository: Repository
    path: str
    branch: str
    tip: str | None
    """Of the branch, where it exists."""
    start_ref: str
    start: str | None
    """What an earlier intake recorded."""


def intake(inputs: Inputs, printer: Printer, commands: Commands) -> Result:
    place = _look(inputs)
    place.repository.exclude(inputs.text("worktrees_root"))
    start = _make(place, inputs)
    if isinstance(start, Result):
        return start
    printer.step("worktree", path=place.path, branch=place.branch, start_commit=start)
    output = {"start_commit": start, "branch": place.branch, "worktree": place.path}
    evidence: dict[str, Any] = {"base_commit": inputs.text("base_commit"), **output}
    if failed := reset(inputs, commands, put_back=False):
        return failed
    evidence["install_exit"] = 0
    if argv := inputs.argv("install"):
        finished = commands.run("install", argv, place.path)
        evidence["install_exit"] = finished.status
        if finished.status:
            error = f"the install command exited {finished.status}: {finished.telling_line}"
            return failure("infrastructure", error, **evidence, learnings=finished.tail)
        if left := _not_ignored(place):
            evidence["install_leaves"] = bounded(left)
    return success(evidence, output)


def _not_ignored(place: Place) -> list[str]:
    """What install has left where git sees it: deliver tells it from the work."""
    git = worktrees.get(place.repository, place.path).git()
    found = git("status", "--porcelain", "--no-renames", "--untracked-files=normal", "-z")
    return [shown(entry[3:]) for entry in found.split(b"\0") if entry]


def _look(inputs: Inputs) -> Place:
    repository = Repository.open(inputs.text("root"))
    branch = inputs.text("branch")
    last_name = branch.rsplit("/", 1)[-1]  # differs from round to round of one task
    start_ref = f"refs/orchestrator/{inputs.text('run_id')}/{inputs.text('slug')}/start-{last_name}"
    tip, start = repository.resolve(f"refs/heads/{branch}^{{commit}}", start_ref)
    return Place(repository, inputs.text("worktree"), branch, tip, start_ref, start)


def _make(place: Place, inputs: Inputs) -> str | Result:
    """The commit that the task starts from; branch and worktree are then at their places."""
    repository, path = place.repository, place.path
    if link := worktrees.link_below(inputs.text("worktrees_root"), path):
        # Whatever is made or removed there would be made or removed in another place.
        return failure(
            "misconfigured", f"{link} is a symbolic link, in the way of {path}: move it away"
        )
    starts = _starts(repository, inputs)
    if isinstance(starts, Result):
        return starts
    if place.tip and not place.start and [place.tip] != list(starts):
        return failure(
            "misconfigured",
            f"the branch {place.branch} already exists in {repository.root}, at"
            f" {place.tip[:12]}, and this run did not make it: rename it (git branch -m"
            f" {place.branch} NAME)",
        )
    if worktrees.begun(repository, path):
        worktrees.discard(repository, path)
    start = place.start or place.tip
    worktree = worktrees.find(repository, path)
    if worktree is None or worktree.branch() != place.branch:
        if (obstacle := _in_the_way(path)) is not None:
            return failure(
                "misconfigured",
                f"{obstacle} already exists and is not the worktree of {place.branch}: move it"
                " away",
            )
        worktree = worktrees.add(repository, path, place.tip or start or next(iter(starts)))
        merged = None if start else _merge(worktree, starts)
        if isinstance(merged, Result):
            worktrees.discard(repository, path)
            return merged
        start = start or merged
    start = start or next(iter(starts))
    refused = _name(place, worktree, start)
    if refused is not None and worktrees.begun(repository, path):
        worktrees.discard(repository, path)
    worktrees.finish(repository, path)
    return refused or start


def _starts(repository: Repository, inputs: Inputs) -> dict[str, str] | Result:
    """The commits to start from, each with what it is called; of several, none contains another."""
    dependencies = inputs.dependencies()
    wanted = [(d.commit or f"refs/heads/{d.branch}", d.branch) for d in dependencies] or [
        (inputs.text("base_commit"), "the base")
    ]
    found = repository.resolve(*(f"{name}^{{commit}}" for name, _ in wanted))
    starts: dict[str, str] = {}
    for (name, what), commit in zip(wanted, found, strict=True):
        if commit is None:
            return failure(
                "misconfigured",
                f"{what} ({name}) is not in {repository.root}: fetch it",
            )
        starts.setdefault(commit, what)
    if len(starts) > 1:
        independent = repository.git("merge-base", "--independent", *starts).decode().split()
        starts = {commit: what for commit, what in starts.items() if commit in independent}
    return starts


def _merge(worktree: Worktree, starts: dict[str, str]) -> str | Result:
    """Merge all but the first into the first, which is checked out."""
    first, *others = starts
    if not others:
        return first
    git = worktree.git()
    who = identity(git)
    for commit in others:
        message = f"Merge {starts[commit]} into {starts[first]}: the task depends on both"
        answer = git.ask(
            "merge", "--no-ff", "--no-verify-signatures", "--quiet", "-m", message, commit, env=who
        )
        if answer.status:
            unmerged = git("diff", "--name-only", "--diff-filter=U", "-z").split(b"\0")
            files = [shown(name) for name in unmerged if name]
            if not files:
                raise GitFault("merge", worktree.path, answer.status, answer.stderr)
            branches = ", ".join(starts.values())
            return failure(
                "merge_conflict",
                f"the dependencies' branches ({branches}) conflict in {', '.join(files[:10])}:"
                f" merge {starts[commit]} into one of them, then requeue the task",
                files=bounded(files),
                branches=list(starts.values()),
            )
    return git.line("rev-parse", "HEAD")


def _name(place: Place, worktree: Worktree, start: str) -> Result | None:
    """Give the branch and the start ref their places, and the branch to the worktree."""
    repository, branch = place.repository, place.branch
    missing = []
    if place.tip is None:
        missing.append((f"refs/heads/{branch}", start, ""))
    if place.start is None:
        missing.append((place.start_ref, start, ""))
    try:
        if missing:
            repository.update_refs(*missing)
        if worktree.branch() != branch:
            with repository.locked():  # git looks at every worktree, and dies of a half-made one
                worktree.git()("checkout", "--quiet", branch, "--")
    except GitFault as fault:
        if blocking := _BLOCKING.search(fault.stderr):
            return failure("misconfigured", blocked_by(blocking[1], branch, repository.root))
        if "already checked out" in fault.stderr or "already used by worktree" in fault.stderr:
            return failure("misconfigured", f"{fault}; switch that one to another branch")
        raise
    return None


def _in_the_way(path: str) -> str | None:
    """What keeps a worktree from being made at ``path``: something there, or a file above it."""
    if os.path.lexists(path):
        is_free = os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)
        return None if is_free else path
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return None if os.path.isdir(above) else above
