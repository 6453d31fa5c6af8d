"""A worktree goes only when all in it is on its branch."""

import os
from pathlib import Path

import pytest

from adapters.workspace.removal import remove_if_safe
from adapters.workspace.repository import Repository
from tests.unit.steps.repository import Repo

BRANCH = "ours/T1"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n", "sub/b.txt": "b\n", ".gitignore": "build/\n"})


@pytest.fixture
def path(repo: Repo) -> str:
    return repo.worktree(repo.path / ".worktrees" / "T1", BRANCH)


def removal(repo: Repo, path: str) -> str:
    reason = remove_if_safe(Repository.open(repo.root), path, BRANCH)
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
