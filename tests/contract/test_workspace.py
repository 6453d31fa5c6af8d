"""What every Workspace does: the one in memory, and git's."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from adapters.workspace.git import GitWorkspace
from orchestrator.core.errors import EnvironmentFault, WorktreeGone
from orchestrator.core.model import Stage
from orchestrator.ports.workspace import Workspace
from tests.fakes.workspace import FakeWorkspace, FakeWorktree
from tests.unit.steps.repository import RUN, Repo

BRANCH = f"orchestrator/{RUN}/T1"
CONFLICT = b"a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> other\nd\n"
FILES = {"a.txt": "a\n", "dir/b.txt": "b\n", "kept.txt": CONFLICT.decode(), ".gitignore": "*.log\n"}


class Bench(Protocol):
    """A worktree on BRANCH, and hands to work in it as an agent would."""

    workspace: Workspace
    worktree: str
    start: str

    def write(self, name: str, data: bytes, *, executable: bool = False) -> None: ...
    def delete(self, name: str) -> None: ...
    def commit(self, *, on_branch: bool = True) -> None: ...
    def lose_worktree(self) -> None: ...
    def refs(self) -> dict[str, str]: ...
    def tree_of(self, commit: str) -> str: ...


class FakeBench:
    worktree = "/w/T1"

    def __init__(self) -> None:
        self._fake = FakeWorkspace(RUN)
        self.workspace: Workspace = self._fake
        files = {name: (text.encode(), False) for name, text in FILES.items()}
        self.start = self._fake.make(self.worktree, BRANCH, files)
        self._there.ignored = ("*.log",)

    @property
    def _there(self) -> FakeWorktree:
        return self._fake.worktrees[self.worktree]

    def write(self, name: str, data: bytes, *, executable: bool = False) -> None:
        self._there.files[name] = (data, executable)

    def delete(self, name: str) -> None:
        del self._there.files[name]

    def commit(self, *, on_branch: bool = True) -> None:
        tree = self._fake._store(self._there.content())
        self._there.head = self._fake.commit(tree, self._there.head)
        if on_branch:
            self._fake.refs[f"refs/heads/{BRANCH}"] = self._there.head

    def lose_worktree(self) -> None:
        del self._fake.worktrees[self.worktree]

    def refs(self) -> dict[str, str]:
        return dict(self._fake.refs)

    def tree_of(self, commit: str) -> str:
        return self._fake.commits[commit].tree


class GitBench:
    def __init__(self, tmp_path: Path) -> None:
        self._repo = Repo(tmp_path / "repo", FILES)
        self.workspace: Workspace = GitWorkspace(self._repo.root, RUN)
        self.worktree = self._repo.worktree(tmp_path / "worktrees" / "T1", BRANCH)
        self.start = self._repo.head

    def write(self, name: str, data: bytes, *, executable: bool = False) -> None:
        path = Path(self.worktree, name)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)

    def delete(self, name: str) -> None:
        Path(self.worktree, name).unlink()

    def commit(self, *, on_branch: bool = True) -> None:
        if not on_branch:
            self._repo.git("checkout", "--quiet", "--detach", cwd=self.worktree)
        self._repo.git("add", "--all", cwd=self.worktree)
        self._repo.git("commit", "--quiet", "-m", "by the agent", cwd=self.worktree)

    def lose_worktree(self) -> None:
        self._repo.git("worktree", "remove", "--force", self.worktree)

    def refs(self) -> dict[str, str]:
        return self._repo.refs()

    def tree_of(self, commit: str) -> str:
        return self._repo.git("rev-parse", f"{commit}^{{tree}}")


@pytest.fixture(params=["memory", "git"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return FakeBench() if request.param == "memory" else GitBench(tmp_path)


async def test_a_tree_names_the_content_and_nothing_else(bench: Bench) -> None:
    clean = await bench.workspace.tree(bench.worktree)
    assert clean == bench.tree_of(bench.start)
    seen = {clean}
    changes: list[Callable[[], None]] = [
        lambda: bench.write("a.txt", b"A\n"),
        lambda: bench.write("new.txt", b"new\n"),
        lambda: bench.write("new.txt", b"new\n", executable=True),
        lambda: bench.delete("dir/b.txt"),
    ]
    for change in changes:
        change()
        seen.add(await bench.workspace.tree(bench.worktree))
    assert len(seen) == 5
    bench.write("a.txt", b"a\n")
    bench.write("dir/b.txt", b"b\n")
    bench.delete("new.txt")
    assert await bench.workspace.tree(bench.worktree) == clean


async def test_ignored_files_and_commits_do_not_change_the_tree(bench: Bench) -> None:
    bench.write("new.txt", b"new\n")
    before = await bench.workspace.tree(bench.worktree)
    bench.write("build.log", b"noise\n")
    bench.commit()
    assert await bench.workspace.tree(bench.worktree) == before


async def test_a_checkpoint_keeps_the_content_under_our_own_ref_alone(bench: Bench) -> None:
    before = bench.refs()
    bench.write("new.txt", b"new\n")
    kept = await bench.workspace.checkpoint(
        bench.worktree, task_slug="T1", stage=Stage.IMPLEMENT, number=3
    )
    assert kept.ref.startswith(f"refs/orchestrator/{RUN}/T1/")
    assert bench.refs() == before | {kept.ref: kept.commit}
    assert kept.tree == bench.tree_of(kept.commit) == await bench.workspace.tree(bench.worktree)


async def test_each_number_has_its_own_checkpoint_and_the_same_one_can_be_made_again(
    bench: Bench,
) -> None:
    async def checkpoint(number: int) -> str:
        kept = await bench.workspace.checkpoint(
            bench.worktree, task_slug="T1", stage=Stage.SCOPE, number=number
        )
        assert bench.refs()[kept.ref] == kept.commit
        return kept.ref

    first = await checkpoint(1)
    bench.write("a.txt", b"more\n")
    assert await checkpoint(1) == first
    assert await checkpoint(2) != first


async def test_a_salvage_ref_keeps_the_content(bench: Bench) -> None:
    bench.write("half.txt", b"half done\n")
    ref = await bench.workspace.salvage(bench.worktree, task_slug="T1", number=2)
    assert ref == f"refs/orchestrator/{RUN}/T1/salvage-2"
    assert bench.tree_of(bench.refs()[ref]) == await bench.workspace.tree(bench.worktree)


async def test_conflict_markers_are_found_in_changed_files_that_did_not_hold_them(
    bench: Bench,
) -> None:
    before = await bench.workspace.tree(bench.worktree)
    bench.write("kept.txt", CONFLICT + b"more\n")
    bench.write("heading.rst", b"Heading\n=======\n\ntext\n")
    assert await bench.workspace.conflict_markers(bench.worktree, before) == ()
    bench.write("a.txt", CONFLICT)
    bench.write("new.txt", CONFLICT)
    found = await bench.workspace.conflict_markers(bench.worktree, before)
    assert found == ("a.txt", "new.txt")


async def test_a_diff_tells_what_changed_since_the_start_however_it_was_committed(
    bench: Bench,
) -> None:
    bench.write("a.txt", b"changed\n")
    bench.commit()
    bench.write("new.txt", b"one more\n")
    text = await bench.workspace.diff(bench.worktree, bench.start, chars_max=10_000)
    assert "-a\n+changed\n" in text
    assert "+one more\n" in text
    assert text.index(" new.txt |") < text.index("-a\n")


async def test_a_long_diff_is_cut_and_says_so(bench: Bench) -> None:
    bench.write("long.txt", b"".join(b"line %d\n" % n for n in range(10_000)))
    text = await bench.workspace.diff(bench.worktree, bench.start, chars_max=500)
    assert len(text) <= 500
    assert "cut" in text.splitlines()[-1]
    assert "long.txt" in text


async def test_a_worktree_whose_content_is_on_its_branch_is_removed(bench: Bench) -> None:
    bench.write("new.txt", b"new\n")
    bench.commit()
    bench.write("build.log", b"ignored, and lost\n")
    assert await bench.workspace.remove_if_safe(bench.worktree, BRANCH) == ""
    with pytest.raises(EnvironmentFault):
        await bench.workspace.tree(bench.worktree)
    assert f"refs/heads/{BRANCH}" in bench.refs()
    assert await bench.workspace.remove_if_safe(bench.worktree, BRANCH) == ""


async def install(bench: Bench) -> str:
    """What a project's command makes of the worktree, and intake's checkpoint of it."""
    bench.write("made.txt", b"made by install\n")
    bench.write("a.txt", b"rewritten by install\n")
    kept = await bench.workspace.checkpoint(
        bench.worktree, task_slug="T1", stage=Stage.INTAKE, number=1
    )
    return kept.commit


async def test_what_install_did_is_not_told_as_a_change(bench: Bench) -> None:
    installed = await install(bench)
    bench.write("new.txt", b"by the work\n")
    text = await bench.workspace.diff(
        bench.worktree, bench.start, chars_max=10_000, installed=installed
    )
    assert "new.txt" in text
    assert "install" not in text
    bench.write("made.txt", b"made by install\nand changed\n")
    text = await bench.workspace.diff(
        bench.worktree, bench.start, chars_max=10_000, installed=installed
    )
    assert "+made by install\n+and changed\n" in text


async def test_a_worktree_goes_with_what_install_did(bench: Bench) -> None:
    installed = await install(bench)
    assert "kept" in await bench.workspace.remove_if_safe(bench.worktree, BRANCH)
    assert (await bench.workspace.remove_if_safe(bench.worktree, BRANCH, installed=installed)) == ""
    with pytest.raises(EnvironmentFault):
        await bench.workspace.tree(bench.worktree)
    assert installed in bench.refs().values()


@pytest.mark.parametrize("name", ["made.txt", "a.txt", "new.txt"])
async def test_a_worktree_stays_for_what_the_work_did_beside_install(
    bench: Bench, name: str
) -> None:
    installed = await install(bench)
    bench.write(name, b"by the work\n")
    tree = await bench.workspace.tree(bench.worktree)
    assert "kept" in await bench.workspace.remove_if_safe(
        bench.worktree, BRANCH, installed=installed
    )
    assert await bench.workspace.tree(bench.worktree) == tree


@pytest.mark.parametrize("what", ["new file", "changed file", "deleted file", "commit", "branch"])
async def test_a_worktree_with_anything_that_is_not_on_its_branch_is_kept(
    bench: Bench, what: str
) -> None:
    branch = BRANCH
    match what:
        case "new file":
            bench.write("new.txt", b"new\n")
        case "changed file":
            bench.write("a.txt", b"changed\n")
        case "deleted file":
            bench.delete("a.txt")
        case "commit":
            bench.write("a.txt", b"committed beside the branch\n")
            bench.commit(on_branch=False)
        case _:
            branch = "no/such/branch"
    tree = await bench.workspace.tree(bench.worktree)
    reason = await bench.workspace.remove_if_safe(bench.worktree, branch)
    assert bench.worktree in reason
    assert "kept" in reason
    assert await bench.workspace.tree(bench.worktree) == tree


async def test_a_worktree_that_is_gone_is_a_fault_that_names_it(bench: Bench) -> None:
    bench.lose_worktree()
    with pytest.raises(EnvironmentFault, match=bench.worktree):
        await bench.workspace.checkpoint(
            bench.worktree, task_slug="T1", stage=Stage.SCOPE, number=1
        )


async def test_nobody_is_to_work_in_a_worktree_that_is_gone(bench: Bench) -> None:
    assert await bench.workspace.directory(bench.worktree) == bench.worktree
    bench.lose_worktree()
    with pytest.raises(WorktreeGone, match=bench.worktree):
        await bench.workspace.directory(bench.worktree)


@pytest.mark.parametrize("how", ["link", "link above", "directory", "another", "git file"])
async def test_nobody_is_to_work_in_what_replaced_a_worktree(tmp_path: Path, how: str) -> None:
    repo = Repo(tmp_path / "repo", FILES)
    workspace = GitWorkspace(repo.root, RUN)
    path, other = tmp_path / "worktrees" / "T1", tmp_path / "worktrees" / "T2"
    for each in (path, other):
        repo.worktree(each, f"o/{each.name}")
    if how == "git file":
        (path / ".git").write_text(f"gitdir: {repo.path}/.git\n")
    elif how == "link above":
        path.parent.rename(tmp_path / "moved")
        path.parent.symlink_to(tmp_path / "moved")
    else:
        path.rename(tmp_path / "moved")
        match how:
            case "link":
                path.symlink_to(repo.path)
            case "another":
                other.rename(path)
            case _:
                path.mkdir()
                (path / ".git").symlink_to(repo.path / ".git")
    head = repo.head
    for look in (workspace.directory, workspace.tree):
        with pytest.raises(WorktreeGone, match="T1"):
            await look(str(path))
    await workspace.remove_if_safe(str(path), "o/T1")
    assert path.exists()
    assert (repo.head, repo.git("status", "--porcelain")) == (head, "")


async def test_a_way_to_all_worktrees_may_lead_over_a_link(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", FILES)
    (tmp_path / "disk").mkdir()
    (tmp_path / "worktrees").symlink_to(tmp_path / "disk")
    path = repo.worktree(tmp_path / "worktrees" / "T1", "o/T1")
    assert await GitWorkspace(repo.root, RUN).directory(path) == f"{tmp_path}/disk/T1"


async def test_the_directory_of_worktrees_goes_with_the_last(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", FILES)
    workspace = GitWorkspace(repo.root, RUN)
    directory = tmp_path / "worktrees"
    first, last = (repo.worktree(directory / name, f"o/{name}") for name in ("T1", "T2"))
    assert await workspace.remove_if_safe(first, "o/T1") == ""
    assert directory.is_dir()
    assert await workspace.remove_if_safe(last, "o/T2") == ""
    assert not directory.exists()
