"""The branch ends with exactly the tree that implement left, whatever the agent did with git, and
without what install did."""

from pathlib import Path

import pytest

from adapters.execution.steps.result import NAMES_MAX, Result
from adapters.workspace import snapshot
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import get
from tests.unit.steps.repository import RUN, Repo
from tests.unit.steps.stages import dependency, run

BRANCH = f"orchestrator/{RUN}/T1"


class Task:
    """One task after intake; the agent works in ``path``."""

    def __init__(self, repo: Repo, install: str = "") -> None:
        self.repo = repo
        self.start = repo.head
        result = run(repo, "intake", install=["sh", "-c", install] if install else [])
        assert result.cause is None, result.error
        self.path = repo.path / ".worktrees" / RUN / "T1"
        self.installed = self.checkpoint("01-intake")["commit"]
        self.tree = ""

    def checkpoint(self, name: str = "03-implement") -> dict[str, str]:
        worktree = get(Repository.open(self.repo.root), str(self.path))
        ref = f"refs/orchestrator/{RUN}/T1/{name}"
        commit, self.tree = snapshot.keep(worktree, ref, "checkpoint")
        return {"commit": commit, "tree": self.tree, "ref": ref}

    def deliver(self, checkpoint: dict[str, str], **more: str) -> Result:
        fields = {"installed": self.installed, **more}
        return run(self.repo, "deliver", start_commit=self.start, checkpoint=checkpoint, **fields)

    def delivered(self) -> str:
        """What the branch changes: letters and names."""
        return self.repo.git("diff", "--name-status", "--no-renames", self.start, BRANCH)

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


INSTALL = """
mkdir -p node_modules/pkg node_modules/.bin 'node_modules/ünï code'
echo one > node_modules/pkg/index.js && echo "#!/bin/sh" > node_modules/pkg/run
chmod +x node_modules/pkg/run && ln -s ../pkg/run node_modules/.bin/run
touch 'node_modules/ünï code/a
b' && echo made > new-lock.json && echo rewritten > lock.json && rm gone.txt && chmod +x tool
"""
"""As npm does where nothing is ignored, and a little more."""


@pytest.fixture
def installed(tmp_path: Path) -> Task:
    files = {"a.txt": "a\n", "lock.json": "lock\n", "gone.txt": "there\n", "tool": "tool\n"}
    return Task(Repo(tmp_path / "repo", files), INSTALL)


def test_what_install_left_is_not_delivered_and_stays_in_the_worktree(installed: Task) -> None:
    status = installed.git("status", "--porcelain")
    installed.repo.write({"a.txt": "changed\n"}, cwd=installed.path)
    kept = installed.checkpoint()
    result = installed.deliver(kept)
    assert result.cause is None, result.error
    assert installed.delivered() == "M\ta.txt"
    assert result.evidence["files_changed"] == ["a.txt"]
    assert result.evidence["tree"] == installed.repo.git("rev-parse", f"{BRANCH}^{{tree}}")
    assert installed.git("status", "--porcelain") == status
    assert installed.deliver(kept) == result


def test_what_the_work_changed_of_it_is_delivered_whole(installed: Task) -> None:
    installed.repo.write(
        {
            "lock.json": "by the work\n",
            "node_modules/pkg/index.js": "patched\n",
            "node_modules/pkg/added.js": "added\n",
            "gone.txt": "there again, and other\n",
        },
        cwd=installed.path,
    )
    (installed.path / "node_modules" / "pkg" / "run").chmod(0o644)
    (installed.path / "new-lock.json").unlink()
    assert installed.deliver(installed.checkpoint()).cause is None
    assert installed.delivered().splitlines() == [
        "M\tgone.txt",
        "M\tlock.json",
        "A\tnode_modules/pkg/added.js",
        "A\tnode_modules/pkg/index.js",
        "A\tnode_modules/pkg/run",
    ]


@pytest.mark.parametrize("undone", [False, True])
def test_an_install_alone_is_no_change(installed: Task, *, undone: bool) -> None:
    if undone:
        installed.git("checkout", "--quiet", ".")
        installed.git("clean", "--quiet", "-d", "--force")
    result = installed.deliver(installed.checkpoint())
    assert result.cause == "empty_change"
    assert ("beside what the install command did" in result.error) != undone
    assert installed.repo.git("rev-parse", BRANCH) == installed.start


def test_a_later_round_of_work_stands_on_the_same_install(installed: Task) -> None:
    installed.repo.write({"a.txt": "changed\n"}, cwd=installed.path)
    assert installed.deliver(installed.checkpoint()).cause is None
    installed.repo.write({"b.txt": "more\n", "new-lock.json": "other\n"}, cwd=installed.path)
    assert installed.deliver(installed.checkpoint()).cause is None
    assert installed.delivered().splitlines() == ["M\ta.txt", "A\tb.txt", "A\tnew-lock.json"]


@pytest.mark.parametrize("known", ["", "1" * 40])
def test_where_intakes_checkpoint_is_not_known_all_is_delivered(
    installed: Task, known: str
) -> None:
    installed.repo.write({"a.txt": "changed\n"}, cwd=installed.path)
    kept = installed.checkpoint()
    result = installed.deliver(kept, installed=known)
    assert result.evidence["tree"] == kept["tree"]


def test_a_dependent_starts_without_it_and_delivers_its_own_work_alone(installed: Task) -> None:
    repo = installed.repo
    repo.write({"a.txt": "by T1\n", "new-lock.json": "by T1\n"}, cwd=installed.path)
    assert installed.deliver(installed.checkpoint()).cause is None
    start = repo.git("rev-parse", BRANCH)
    needs = [dependency("T1")]
    install = "echo made > new-lock.json; echo by install > a.txt; mkdir m; touch m/x"
    made = run(repo, "intake", "T2", dependencies=needs, install=["sh", "-c", install])
    assert made.evidence["start_commit"] == start
    path = repo.path / ".worktrees" / RUN / "T2"
    worktree = get(Repository.open(repo.root), str(path))
    intake, _ = snapshot.keep(worktree, f"refs/orchestrator/{RUN}/T2/01-intake", "intake")
    repo.write({"b.txt": "by T2\n"}, cwd=path)
    kept, _ = snapshot.keep(worktree, f"refs/orchestrator/{RUN}/T2/02-implement", "implement")
    fields = {"start_commit": start, "checkpoint": {"commit": kept}, "installed": intake}
    assert run(repo, "deliver", "T2", **fields).cause is None
    changed = repo.git("diff", "--name-status", start, f"orchestrator/{RUN}/T2")
    assert changed == "A\tb.txt"


def test_work_that_a_second_intake_finds_on_the_branch_is_not_installs(installed: Task) -> None:
    installed.repo.commit({"a.txt": "committed\n"}, cwd=installed.path)
    installed.installed = installed.checkpoint("02-intake")["commit"]
    installed.repo.write({"b.txt": "more\n"}, cwd=installed.path)
    assert installed.deliver(installed.checkpoint()).cause is None
    assert installed.delivered().splitlines() == ["M\ta.txt", "A\tb.txt"]


def test_a_repository_that_install_checked_out_is_in_nobodys_way(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", {"a.txt": "a\n"})
    task = Task(repo, f"git clone --quiet {repo.root} vendored")
    repo.write({"a.txt": "changed\n"}, cwd=task.path)
    assert task.deliver(task.checkpoint()).cause is None
    assert task.delivered() == "M\ta.txt"
