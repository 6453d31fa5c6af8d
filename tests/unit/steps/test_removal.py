"""A worktree goes only when all in it is on its branch."""

import os
import shutil
from pathlib import Path

import pytest

from adapters.workspace import snapshot
from adapters.workspace.removal import remove_if_safe
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import get
from tests.unit.steps.repository import Repo

BRANCH = "ours/T1"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n", "sub/b.txt": "b\n", ".gitignore": "build/\n"})


@pytest.fixture
def path(repo: Repo) -> str:
    return repo.worktree(repo.path / ".worktrees" / "T1", BRANCH)


def removal(repo: Repo, path: str, installed: str = "") -> str:
    reason = remove_if_safe(Repository.open(repo.root), path, BRANCH, installed)
    assert os.path.lexists(path) == bool(reason)
    return reason


def test_a_worktree_behind_its_branch_is_removed(repo: Repo, path: str) -> None:
    repo.git("checkout", "--quiet", "--detach", cwd=path)
    tip = repo.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "later", cwd=path)
    repo.git("update-ref", f"refs/heads/{BRANCH}", tip)
    repo.write({"build/out": "a product\n"}, cwd=path)
    assert removal(repo, path) == ""
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_git_was_told_to_pass_over_keeps_it(repo: Repo, path: str, flag: str) -> None:
    repo.git("update-index", flag, "a.txt", cwd=path)
    repo.write({"a.txt": "hidden work\n"}, cwd=path)
    assert "a.txt" in removal(repo, path)


def test_a_staged_change_alone_keeps_it(repo: Repo, path: str) -> None:
    repo.write({"a.txt": "staged\n"}, cwd=path)
    repo.git("add", "a.txt", cwd=path)
    repo.write({"a.txt": "a\n"}, cwd=path)
    assert "a.txt" in removal(repo, path)


def test_a_file_in_an_untracked_directory_is_named(repo: Repo, path: str) -> None:
    repo.git("config", "status.showUntrackedFiles", "no")
    repo.write({"deep/er/notes.txt": "work\n"}, cwd=path)
    assert "deep/er/notes.txt" in removal(repo, path)


def test_inner_repositories_keep_it_and_empty_submodules_do_not(repo: Repo, path: str) -> None:
    inner = Repo(Path(path, "inner"), {"x": "x\n"})
    repo.git("add", "inner", cwd=path)
    repo.git("commit", "--quiet", "-m", "a link to it", cwd=path)
    assert "inner" in removal(repo, path)
    repo.git("worktree", "remove", "--force", path)
    repo.git("worktree", "add", "--quiet", path, BRANCH)
    assert os.listdir(Path(path, "inner")) == []
    assert inner.path.exists() is True
    assert removal(repo, path) == ""


def test_a_worktree_that_became_a_repository_is_kept(repo: Repo, path: str) -> None:
    Path(path, ".git").unlink()
    repo.git("init", "--quiet", cwd=path)
    assert "repository of its own" in removal(repo, path)


def test_a_locked_worktree_is_kept(repo: Repo, path: str) -> None:
    repo.git("worktree", "lock", path)
    assert "locked" in removal(repo, path)


def test_what_is_no_worktree_of_ours_is_kept(repo: Repo, path: str, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "file").touch()
    assert "not a worktree" in removal(repo, str(stranger))
    link = tmp_path / "link"
    link.symlink_to(path)
    assert "not a worktree" in removal(repo, str(link))
    assert os.path.exists(path)


def test_an_unborn_head_keeps_it(repo: Repo, path: str) -> None:
    repo.git("checkout", "--quiet", "--orphan", "other", cwd=path)
    assert "no commit" in removal(repo, path)


def install(repo: Repo, path: str) -> str:
    """Of every kind: made, changed, removed, made runnable, and one in the other's place."""
    repo.write({"n/ü m/\u2028\n": "made\n", "n/run": "run\n", "a.txt": "other\n"}, cwd=path)
    Path(path, "n", "link").symlink_to("run")
    Path(path, "n", "run").chmod(0o755)
    shutil.rmtree(Path(path, "sub"))
    Path(path, "sub").write_text("a file now\n")
    (Path(path) / ".gitignore").chmod(0o755)
    worktree = get(Repository.open(repo.root), path)
    return snapshot.keep(worktree, "refs/orchestrator/r/T1/01-intake", "intake")[0]


def test_what_install_did_goes_with_it_and_is_kept_by_intakes_checkpoint(
    repo: Repo, path: str
) -> None:
    installed = install(repo, path)
    assert removal(repo, path, installed) == ""
    assert "n/run" in repo.git("ls-tree", "-r", "--name-only", installed)
    assert repo.git("status", "--porcelain", "--untracked-files=no") == ""


def test_what_the_work_did_beside_install_is_what_is_named(repo: Repo, path: str) -> None:
    installed = install(repo, path)
    repo.write({"n/z": "work\n"}, cwd=path)
    assert removal(repo, path, installed).endswith(f"not on {BRANCH}: n/z")
    assert os.path.exists(Path(path, "n", "run"))


def test_what_is_staged_over_what_install_did_keeps_it(repo: Repo, path: str) -> None:
    installed = install(repo, path)
    repo.write({"a.txt": "staged\n"}, cwd=path)
    repo.git("add", "a.txt", cwd=path)
    repo.write({"a.txt": "other\n"}, cwd=path)
    assert removal(repo, path, installed).endswith(f"not on {BRANCH}: a.txt")


@pytest.mark.parametrize("how", ["locked", "inner"])
def test_a_worktree_that_is_kept_keeps_what_install_did(repo: Repo, path: str, how: str) -> None:
    if how == "locked":
        installed = install(repo, path)
        repo.git("worktree", "lock", path)
    else:
        Repo(Path(path, "inner"), {"x": "x\n"})
        installed = install(repo, path)
    assert how in removal(repo, path, installed)
    assert Path(path, "n", "run").read_text() == "run\n"
    assert Path(path, "a.txt").read_text() == "other\n"
