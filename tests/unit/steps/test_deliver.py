"""The branch ends with exactly the tree that implement left, whatever the agent did with git."""

from pathlib import Path

import pytest

from adapters.execution.steps.result import NAMES_MAX, Result
from adapters.workspace import snapshot
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import get
from tests.unit.steps.repository import RUN, Repo
from tests.unit.steps.stages import run

BRANCH = f"orchestrator/{RUN}/T1"


class Task:
    """One task after intake; the agent works in ``path``."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.start = repo.head
        run(repo, "intake")
        self.path = repo.path / ".worktrees" / RUN / "T1"
        self.tree = ""

    def checkpoint(self) -> dict[str, str]:
        worktree = get(Repository.open(self.repo.root), str(self.path))
        ref = f"refs/orchestrator/{RUN}/T1/03-implement"
        commit, self.tree = snapshot.keep(worktree, ref, "checkpoint")
        return {"commit": commit, "tree": self.tree, "ref": ref}

    def deliver(self, checkpoint: dict[str, str]) -> Result:
        return run(self.repo, "deliver", start_commit=self.start, checkpoint=checkpoint)

    def git(self, *args: str, status: int = 0) -> str:
        return self.repo.git(*args, cwd=self.path, status=status)

    def assert_delivered(self, result: Result, *, commits: int) -> None:
        assert result.cause is None, result.error
        tip = self.repo.git("rev-parse", BRANCH)
        assert result.output == {"branch": BRANCH, "commit": tip}
        assert self.repo.git("rev-parse", f"{BRANCH}^{{tree}}") == self.tree
        assert self.repo.git("rev-list", "--count", f"{self.start}..{BRANCH}") == str(commits)
        if self.path.exists():
            assert self.git("symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
            assert self.git("diff", "--cached", "--name-only") == ""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(Repo(tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n"}))


def test_uncommitted_work_becomes_one_commit_with_the_given_message(task: Task) -> None:
    task.repo.write({"a.txt": "changed\n", "new.txt": "new\n"}, cwd=task.path)
    (task.path / "b.txt").unlink()
    result = task.deliver(task.checkpoint())
    task.assert_delivered(result, commits=1)
    assert result.evidence["files_changed"] == ["a.txt", "b.txt", "new.txt"]
    assert task.git("log", "-1", "--format=%B").strip() == "Do T1\n\nTask: T1"
    assert task.git("status", "--porcelain") == ""


def test_delivering_again_changes_nothing(task: Task) -> None:
    task.repo.write({"a.txt": "changed\n"}, cwd=task.path)
    kept = task.checkpoint()
    first = task.deliver(kept)
    assert task.deliver(kept) == first
    task.assert_delivered(first, commits=1)


def test_what_tests_wrote_stays_uncommitted(task: Task) -> None:
    task.repo.write({"new.txt": "new\n"}, cwd=task.path)
    kept = task.checkpoint()
    task.repo.write({"report.xml": "by the tests\n", "a.txt": "by the tests\n"}, cwd=task.path)
    task.assert_delivered(task.deliver(kept), commits=1)
    assert task.git("status", "--porcelain") == " M a.txt\n?? report.xml"


def test_commits_of_the_agent_are_kept_and_completed(task: Task) -> None:
    task.repo.commit({"a.txt": "committed\n"}, cwd=task.path)
    task.repo.write({"b.txt": "not committed\n"}, cwd=task.path)
    task.assert_delivered(task.deliver(task.checkpoint()), commits=2)


def test_a_branch_that_holds_everything_gets_no_further_commit(task: Task) -> None:
    tip = task.repo.commit({"a.txt": "committed\n"}, cwd=task.path)
    result = task.deliver(task.checkpoint())
    task.assert_delivered(result, commits=1)
    assert result.evidence["commit"] == tip


def test_a_branch_of_the_agents_own_is_followed(task: Task) -> None:
    task.git("checkout", "--quiet", "-b", "feature")
    task.repo.commit({"a.txt": "on feature\n"}, cwd=task.path)
    task.repo.write({"b.txt": "not committed\n"}, cwd=task.path)
    task.assert_delivered(task.deliver(task.checkpoint()), commits=2)
    assert task.repo.git("rev-parse", "feature") == task.repo.git("rev-parse", f"{BRANCH}^")


def test_a_rewritten_branch_starts_where_it_should_and_the_rewriting_is_kept(task: Task) -> None:
    task.git("commit", "--quiet", "--amend", "-m", "rewritten start")
    rewritten = task.git("rev-parse", "HEAD")
    task.repo.write({"a.txt": "changed\n"}, cwd=task.path)
    task.assert_delivered(task.deliver(task.checkpoint()), commits=1)
    assert task.repo.refs()[f"refs/orchestrator/{RUN}/T1/replaced-{rewritten[:12]}"] == rewritten


def test_a_branch_reset_behind_the_start_or_deleted_is_set_right(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", {"a.txt": "first\n"})
    first = repo.head
    repo.commit({"a.txt": "a\n"})
    task = Task(repo)
    task.git("reset", "--hard", "--quiet", first)
    repo.write({"new.txt": "new\n"}, cwd=task.path)
    kept = task.checkpoint()
    task.assert_delivered(task.deliver(kept), commits=1)
    task.git("checkout", "--quiet", "--detach")
    task.git("branch", "--quiet", "-D", BRANCH)
    task.assert_delivered(task.deliver(kept), commits=1)


@pytest.mark.parametrize("state", ["merge", "rebase", "lock", "no .git file"])
def test_git_left_in_the_middle_is_settled(task: Task, state: str) -> None:
    task.repo.commit({"a.txt": "on main\n"})
    task.repo.commit({"a.txt": "by the agent\n"}, cwd=task.path)
    if state in {"merge", "rebase"}:
        task.git(state, "main", status=1)
    task.repo.write({"a.txt": "resolved\n"}, cwd=task.path)
    kept = task.checkpoint()
    if state == "lock":
        admin = Path(task.git("rev-parse", "--absolute-git-dir"))
        (admin / "index.lock").touch()
        (admin / "HEAD.lock").touch()
    if state == "no .git file":
        (task.path / ".git").unlink()
    result = task.deliver(kept)
    assert result.cause is None
    assert "worktree_note" not in result.evidence
    assert task.repo.git("rev-parse", f"{BRANCH}^{{tree}}") == task.tree
    assert task.git("status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert "in progress" not in task.git("status")


def test_a_worktree_that_is_gone_does_not_stop_it(task: Task) -> None:
    task.repo.write({"a.txt": "changed\n"}, cwd=task.path)
    kept = task.checkpoint()
    task.repo.git("worktree", "remove", "--force", str(task.path))
    result = task.deliver(kept)
    task.assert_delivered(result, commits=1)
    assert result.evidence["worktree_note"] == f"{task.path} is gone"


def test_an_empty_change_is_refused_and_the_branch_stays(task: Task) -> None:
    task.repo.commit({"a.txt": "changed\n"}, cwd=task.path)
    task.repo.commit({"a.txt": "a\n"}, cwd=task.path)
    tip = task.git("rev-parse", "HEAD")
    assert task.deliver(task.checkpoint()).cause == "empty_change"
    assert task.repo.git("rev-parse", BRANCH) == tip


def test_a_lost_checkpoint_is_the_machines_fault(task: Task) -> None:
    assert task.deliver({}).cause == "infrastructure"
    assert task.deliver({"commit": "1" * 40, "tree": "", "ref": ""}).cause == "infrastructure"


def test_the_list_of_changed_files_is_bounded_and_counted(task: Task) -> None:
    task.repo.write({f"d/{n}.txt": "x\n" for n in range(NAMES_MAX + 50)}, cwd=task.path)
    result = task.deliver(task.checkpoint())
    assert len(result.evidence["files_changed"]) == NAMES_MAX
    assert result.evidence["files_changed_count"] == NAMES_MAX + 50


def test_a_repository_inside_the_work_is_not_delivered(task: Task) -> None:
    tip = task.repo.git("rev-parse", BRANCH)
    Repo(task.path / "inner", {"x": "x\n"})
    result = task.deliver(task.checkpoint())
    assert result.cause == "inner_repository"
    assert "inner: a git repository of its own" in result.error
    assert task.repo.git("rev-parse", BRANCH) == tip
