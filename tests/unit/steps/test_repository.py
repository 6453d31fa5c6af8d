"""Whether a run can start from a repository, and who may change its worktrees."""

from pathlib import Path

import pytest

from adapters.workspace import worktree as worktrees
from adapters.workspace.invoke import GitFault
from adapters.workspace.repository import (
    Inspection,
    Repository,
    inspect_repository,
    locked_file,
)
from orchestrator.core.errors import EnvironmentFault, Usage
from tests.unit.steps.repository import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n"})


def test_a_clean_repository_is_fit_from_any_of_its_directories(repo: Repo) -> None:
    (repo.path / "deep").mkdir()
    assert inspect_repository(str(repo.path / "deep")) == Inspection(repo.root, repo.head, ())


def test_a_base_is_a_branch_before_it_is_a_tag(repo: Repo) -> None:
    first = repo.head
    repo.commit({"a.txt": "b\n"})
    repo.git("branch", "release", first)
    repo.git("tag", "release")
    assert inspect_repository(repo.root, base="release").base_commit == first


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x85", " "])
def test_a_path_may_hold_any_separator_but_a_line_break(tmp_path: Path, separator: str) -> None:
    odd = Repo(tmp_path / f"a{separator}b", {"a.txt": "a\n"})
    assert Repository.open(odd.root).root == odd.root
    assert inspect_repository(odd.root).base_commit == odd.head
    with pytest.raises(Usage, match="line break"):
        inspect_repository(Repo(tmp_path / "a\nb", {"a.txt": "a\n"}).root)


def test_uncommitted_changes_are_a_note(repo: Repo) -> None:
    repo.write({"a.txt": "dirty\n", "b.txt": "new\n"})
    (note,) = inspect_repository(repo.root).notes
    assert "uncommitted changes (2)" in note
    assert repo.head[:12] in note


def test_each_unfit_repository_is_refused_with_the_remedy(tmp_path: Path, repo: Repo) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(Usage, match=r"plain is not a git repository: .*git init"):
        inspect_repository(str(tmp_path / "plain"))
    with pytest.raises(Usage, match="is not a directory"):
        inspect_repository(str(tmp_path / "absent"))
    with pytest.raises(Usage, match="has no commits"):
        inspect_repository(Repo(tmp_path / "empty").root)
    with pytest.raises(Usage, match=r"no branch or commit 'develop': .*\[git\]"):
        inspect_repository(repo.root, base="develop")
    repo.git("init", "--quiet", "--bare", str(tmp_path / "bare"))
    with pytest.raises(Usage, match="bare repository"):
        inspect_repository(str(tmp_path / "bare"))


@pytest.mark.parametrize("branch", ["team", "team/ours"])
def test_a_branch_in_the_way_of_ours_is_named_with_the_remedy(repo: Repo, branch: str) -> None:
    repo.git("branch", branch)
    with pytest.raises(Usage, match=rf"'{branch}' .* blocks team/ours/….*git branch -m {branch}"):
        inspect_repository(repo.root, branch_prefix="team/ours")
    repo.git("branch", "-m", branch, "elsewhere")
    repo.git("branch", "team/ours/run/T0")
    assert inspect_repository(repo.root, branch_prefix="team/ours").notes == ()


def test_the_worktrees_directory_is_kept_out_of_status_once(repo: Repo) -> None:
    exclude = repo.path / ".git" / "info" / "exclude"
    exclude.write_text("*.o")  # without a newline
    repository = Repository.open(repo.root)
    for _ in range(2):
        repository.exclude(f"{repo.root}/.worktrees")
    repository.exclude("/somewhere/else")
    assert exclude.read_text() == "*.o\n/.worktrees/\n"
    repo.write({".worktrees/x": "x"})
    assert repo.git("status", "--porcelain") == ""


def test_refs_move_all_at_once_or_not_at_all(repo: Repo) -> None:
    repository = Repository.open(repo.root)
    first = repo.head
    second = repo.commit({"a.txt": "b\n"})
    repository.update_refs(("refs/heads/x", first, ""), ("refs/x/start", first, ""))
    before = repo.refs()
    with pytest.raises(GitFault):
        repository.update_refs(("refs/x/start", second, first), ("refs/heads/x", second, ""))
    assert repo.refs() == before


def test_a_lock_that_another_holds_is_waited_for_with_a_bound(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with (
        locked_file(path, "it"),
        pytest.raises(EnvironmentFault, match=r"it .* held by another process"),
        locked_file(path, "it", timeout_s=0.02),
    ):
        pass
    with locked_file(path, "it", timeout_s=0):
        pass


def test_scratch_is_known_until_it_is_finished_and_goes_without_a_trace(repo: Repo) -> None:
    repository = Repository.open(repo.root)
    path = f"{repo.root}/.worktrees/T1"
    assert not worktrees.begun(repository, path)
    worktrees.add(repository, path, repo.head)
    assert worktrees.begun(repository, path)
    repo.write({"read/only": "x"}, cwd=path)
    Path(path, "read").chmod(0o500)
    worktrees.discard(repository, path)
    assert not Path(path).exists()
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    made = worktrees.add(repository, path, repo.head)
    worktrees.finish(repository, path)
    assert not worktrees.begun(repository, path)
    assert worktrees.find(repository, path) == made


def test_a_directory_that_was_deleted_by_hand_is_made_again(repo: Repo) -> None:
    repository = Repository.open(repo.root)
    path = repo.worktree(repo.path / "wt", "b")
    repo.git("worktree", "lock", path)
    Path(path, ".git").unlink()
    Path(path, "a.txt").unlink()
    Path(path).rmdir()
    worktrees.add(repository, path, repo.head)
    assert Path(path, "a.txt").read_text() == "a\n"
