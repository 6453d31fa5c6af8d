"""The present content of a worktree, whatever an agent or a repository's settings do."""

import os
import tempfile
from pathlib import Path

import pytest
import trio

from adapters.workspace import snapshot
from adapters.workspace.git import GitWorkspace
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import Worktree, get
from orchestrator.core.model import Stage
from tests.unit.steps.repository import RUN, Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n", ".gitignore": "ignored/\n"})


@pytest.fixture
def there(repo: Repo) -> Worktree:
    path = repo.worktree(repo.path / ".worktrees" / "T1", "ours/T1")
    return get(Repository.open(repo.root), path)


def content(repo: Repo, tree: str) -> dict[str, str]:
    """Mode of each file, as git lists them."""
    lines = repo.git("ls-tree", "-r", "-z", tree).split("\0")
    return {line.split("\t", 1)[1]: line.split(" ")[0] for line in lines if line}


def test_links_modes_and_odd_names_are_kept(repo: Repo, there: Worktree) -> None:
    path = os.fsencode(there.path)
    os.symlink("a.txt", path + b"/link")
    names = [b"new\nline", b"\xff\xfe", b" spaces ", b'"quoted"', b"-rf"]
    for name in names:
        Path(os.fsdecode(path + b"/" + name)).write_text("x")
    Path(there.path, "-rf").chmod(0o755)
    os.mkfifo(path + b"/pipe")
    modes = content(repo, snapshot.take(there))
    assert modes["link"] == "120000"
    assert modes["-rf"] == "100755"
    assert {os.fsdecode(name) for name in names} <= modes.keys()
    assert "pipe" not in modes


def test_a_tracked_file_that_is_ignored_stays_in_the_tree(repo: Repo, there: Worktree) -> None:
    repo.commit({"ignored/tracked": "1\n"}, cwd=there.path)
    repo.write({"ignored/untracked": "2\n"}, cwd=there.path)
    assert "ignored/tracked" in content(repo, snapshot.take(there))
    assert "ignored/untracked" not in content(repo, snapshot.take(there))
    Path(there.admin_dir, "index").unlink()
    assert "ignored/tracked" in content(repo, snapshot.take(there))


def test_the_agents_index_and_its_lock_are_left_alone(repo: Repo, there: Worktree) -> None:
    repo.write({"a.txt": "staged\n"}, cwd=there.path)
    repo.git("add", "a.txt", cwd=there.path)
    repo.write({"a.txt": "not staged\n", "new.txt": "new\n"}, cwd=there.path)
    index, lock = Path(there.admin_dir, "index"), Path(there.admin_dir, "index.lock")
    before = index.read_bytes()
    lock.touch()
    tree = snapshot.take(there)
    assert repo.git("show", f"{tree}:a.txt") == "not staged"
    assert index.read_bytes() == before
    assert lock.exists()


def test_a_change_in_the_instant_of_the_last_commit_is_seen(repo: Repo, there: Worktree) -> None:
    """Git looks into a file anew only if it is no older than the index that lists it."""
    repo.git("config", "core.trustctime", "false")
    file, index = Path(there.path, "a.txt"), Path(there.admin_dir, "index")
    instant = 1_700_000_000 * 10**9
    os.utime(file, ns=(instant, instant))
    repo.git("update-index", "--refresh", cwd=there.path)
    os.utime(index, ns=(instant, instant))
    file.write_text("A\n")  # of the same size
    os.utime(file, ns=(instant, instant))
    assert repo.git("show", f"{snapshot.take(there)}:a.txt") == "A"


@pytest.mark.parametrize("damage", [b"", b"DIRC garbage", b"\0" * 100])
def test_a_damaged_index_is_done_without(repo: Repo, there: Worktree, damage: bytes) -> None:
    repo.write({"new.txt": "new\n"}, cwd=there.path)
    Path(there.admin_dir, "index").write_bytes(damage)
    assert content(repo, snapshot.take(there)).keys() == {".gitignore", "a.txt", "new.txt"}


def test_a_worktree_without_its_git_file_never_becomes_the_users_own(
    repo: Repo, there: Worktree
) -> None:
    repo.write({"mine.txt": "the user's\n"})
    repo.write({"new.txt": "the agent's\n"}, cwd=there.path)
    Path(there.path, ".git").unlink()
    found = get(Repository.open(repo.root), there.path)
    assert content(repo, snapshot.take(found)).keys() == {".gitignore", "a.txt", "new.txt"}
    assert repo.git("rev-parse", "--abbrev-ref", "HEAD", cwd=there.path) == "ours/T1"


def test_a_worktree_made_into_a_repository_of_its_own_is_still_ours(
    repo: Repo, there: Worktree
) -> None:
    Path(there.path, ".git").unlink()
    repo.git("init", "--quiet", cwd=there.path)
    repo.commit({"new.txt": "new\n"}, cwd=there.path)
    found = get(Repository.open(repo.root), there.path)
    assert content(repo, snapshot.take(found)).keys() == {".gitignore", "a.txt", "new.txt"}


def test_inner_repositories_do_not_stop_it(repo: Repo, there: Worktree) -> None:
    Repo(Path(there.path, "empty"))
    inner = Repo(Path(there.path, "inner"), {"x": "x\n"})
    repo.write({"new.txt": "new\n"}, cwd=there.path)
    tree = snapshot.take(there)
    assert content(repo, tree) == {
        ".gitignore": "100644",
        "a.txt": "100644",
        "inner": "160000",
        "new.txt": "100644",
    }
    assert repo.git("rev-parse", f"{tree}:inner") == inner.head


def test_an_unfinished_merge_is_taken_as_it_lies_there(repo: Repo, there: Worktree) -> None:
    repo.commit({"a.txt": "theirs\n"})
    repo.commit({"a.txt": "ours\n"}, cwd=there.path)
    repo.git("merge", "main", cwd=there.path, status=1)
    before = repo.git("rev-parse", "ours/T1^{tree}")
    assert snapshot.conflict_markers(there, before) == ("a.txt",)


async def test_no_hook_monitor_signer_or_editor_of_the_repository_runs(
    repo: Repo, there: Worktree, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho $0 >> {ran}\nexit 1\n")
    script.chmod(0o755)
    hooks = repo.path / ".git" / "hooks"
    for name in (
        "post-checkout", "reference-transaction", "pre-commit", "commit-msg", "post-index-change",
        "post-commit", "pre-merge-commit", "prepare-commit-msg", "fsmonitor-watchman",
    ):  # fmt: skip
        (hooks / name).unlink(missing_ok=True)
        (hooks / name).symlink_to(script)
    for key in ("core.fsmonitor", "gpg.program", "core.editor", "core.pager", "diff.external"):
        repo.git("config", key, str(script))
    repo.git("config", "commit.gpgSign", "true")
    ran.unlink(missing_ok=True)
    workspace = GitWorkspace(repo.root, RUN)
    repo.write({"new.txt": "new\n"}, cwd=there.path)
    kept = await workspace.checkpoint(there.path, task_slug="T1", stage=Stage.TEST, number=1)
    assert "new" in await workspace.diff(there.path, repo.head, chars_max=1000)
    await workspace.remove_if_safe(there.path, "ours/T1")
    assert repo.refs("refs/orchestrator") == {kept.ref: kept.commit}
    assert not ran.exists()


async def test_a_cancelled_snapshot_ends_its_git_and_leaves_nothing(
    repo: Repo, there: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch, alive = tmp_path / "scratch", tmp_path / "alive"
    scratch.mkdir()
    os.mkfifo(alive)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    repo.git("config", "filter.slow.clean", f"exec 9> {alive}; echo begun >&9; exec sleep 30")
    repo.write({".gitattributes": "*.slow filter=slow\n", "a.slow": "x\n"}, cwd=there.path)
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(GitWorkspace(repo.root, RUN).tree, there.path)
            async with await trio.open_file(alive) as held_by_filter:
                assert await held_by_filter.readline() == "begun\n"
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    assert await held_by_filter.read() == ""  # its end: the filter is gone
    assert list(scratch.iterdir()) == []


async def test_a_commit_has_the_users_name_or_ours_where_there_is_none(
    repo: Repo, there: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("EMAIL", raising=False)
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ):
        monkeypatch.delenv(name, raising=False)
    workspace = GitWorkspace(repo.root, RUN)

    async def author(number: int) -> str:
        kept = await workspace.checkpoint(
            there.path, task_slug="T1", stage=Stage.TEST, number=number
        )
        return repo.git("log", "-1", "--format=%an <%ae>", kept.commit)

    assert await author(1) == "orchestrator <orchestrator@localhost>"
    repo.git("config", "user.name", "Grace")
    repo.git("config", "user.email", "grace@example.com")
    assert await author(2) == "Grace <grace@example.com>"
