"""Where a task starts: branch and worktree, from the base or from what it depends on."""

from pathlib import Path

import pytest

from tests.unit.steps.repository import RUN, Repo
from tests.unit.steps.stages import dependency, run

BRANCH = f"orchestrator/{RUN}/T1"
START_REF = f"refs/orchestrator/{RUN}/T1/start-T1"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n"})


@pytest.fixture
def path(repo: Repo) -> Path:
    return repo.path / ".worktrees" / RUN / "T1"


def branch_with(repo: Repo, slug: str, files: dict[str, str]) -> str:
    """What an earlier task of the run delivered."""
    repo.git("checkout", "--quiet", "-b", f"orchestrator/{RUN}/{slug}", "main")
    commit = repo.commit(files, message=slug)
    repo.git("checkout", "--quiet", "main")
    return commit


def test_it_starts_from_the_base_and_leaves_the_users_files_alone(repo: Repo, path: Path) -> None:
    base = repo.head
    repo.commit({"a.txt": "later\n"})
    repo.write({"b.txt": "dirty\n"})
    result = run(repo, "intake", start_commit=base, install=["touch", "installed"])
    assert result.cause is None
    assert result.output == {"start_commit": base, "branch": BRANCH, "worktree": str(path)}
    assert result.evidence == {
        **result.output,
        "base_commit": base,
        "install_exit": 0,
        "install_leaves": ["installed"],
    }
    assert (path / "a.txt").read_text() == "a\n"
    assert (path / "installed").exists()
    assert repo.git("status", "--porcelain") == " M b.txt"
    assert repo.git("symbolic-ref", "HEAD", cwd=path) == f"refs/heads/{BRANCH}"
    assert repo.refs() == {
        "refs/heads/main": repo.head,
        f"refs/heads/{BRANCH}": base,
        START_REF: base,
    }


def test_what_install_leaves_is_named_where_git_does_not_ignore_it(repo: Repo) -> None:
    repo.commit({".gitignore": "ignored/\n"})
    script = "mkdir ignored seen && touch ignored/a seen/ä seen/b && echo >>a.txt"
    result = run(repo, "intake", install=["sh", "-c", script])
    assert result.evidence["install_leaves"] == ["a.txt", "seen/"]
    clean = run(repo, "intake", "T2", install=["mkdir", "ignored"])
    assert clean.cause is None
    assert "install_leaves" not in clean.evidence


def test_it_starts_from_the_branch_of_its_one_dependency(repo: Repo, path: Path) -> None:
    done = branch_with(repo, "T0", {"new.txt": "by T0\n"})
    result = run(repo, "intake", dependencies=[dependency("T0")])
    assert result.output is not None
    assert result.output["start_commit"] == done
    assert (path / "new.txt").read_text() == "by T0\n"


def test_it_starts_from_a_merge_of_several(repo: Repo, path: Path) -> None:
    commits = [branch_with(repo, f"D{n}", {f"new{n}.txt": f"{n}\n"}) for n in range(3)]
    result = run(repo, "intake", dependencies=[dependency(f"D{n}") for n in range(3)])
    assert result.cause is None, result.error
    assert all((path / f"new{n}.txt").exists() for n in range(3))
    start = repo.git("rev-parse", BRANCH)
    for commit in commits:
        repo.git("merge-base", "--is-ancestor", commit, start)
    assert repo.refs()[START_REF] == start == result.evidence["start_commit"]
    assert repo.git("status", "--porcelain", cwd=path) == ""


def test_a_dependency_that_contains_the_other_needs_no_merge(repo: Repo) -> None:
    branch_with(repo, "D0", {"new.txt": "0\n"})
    repo.git("checkout", "--quiet", "-b", f"orchestrator/{RUN}/D1", f"orchestrator/{RUN}/D0")
    tip = repo.commit({"new.txt": "1\n"})
    repo.git("checkout", "--quiet", "main")
    result = run(repo, "intake", dependencies=[dependency("D0"), dependency("D1")])
    assert result.evidence["start_commit"] == tip


def test_conflicting_dependencies_are_named_and_leave_no_scratch(repo: Repo, path: Path) -> None:
    branch_with(repo, "D0", {"a.txt": "zero\n", "b.txt": "zero\n"})
    branch_with(repo, "D1", {"a.txt": "one\n"})
    before = repo.refs()
    result = run(repo, "intake", dependencies=[dependency("D0"), dependency("D1")])
    assert result.cause == "merge_conflict"
    assert result.evidence["files"] == ["a.txt"]
    assert "a.txt" in result.error
    assert f"orchestrator/{RUN}/D1" in result.error
    assert not path.exists()
    assert repo.refs() == before
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_second_intake_finds_everything_done(repo: Repo, path: Path) -> None:
    branch_with(repo, "D0", {"new0.txt": "0\n"})
    branch_with(repo, "D1", {"new1.txt": "1\n"})
    needs = [dependency("D0"), dependency("D1")]
    first = run(repo, "intake", dependencies=needs)
    repo.write({"installed": "by a half install\n"}, cwd=path)
    assert run(repo, "intake", dependencies=needs) == first
    assert (path / "installed").exists()


def test_work_on_the_branch_outlives_a_worktree_deleted_by_hand(repo: Repo, path: Path) -> None:
    first = run(repo, "intake")
    repo.commit({"work.txt": "by the agent\n"}, cwd=path)
    repo.git("worktree", "remove", "--force", str(path))
    assert run(repo, "intake") == first
    assert (path / "work.txt").read_text() == "by the agent\n"


def test_a_branch_at_the_right_place_is_taken(repo: Repo, path: Path) -> None:
    repo.git("branch", BRANCH)
    assert run(repo, "intake").cause is None
    assert repo.refs()[START_REF] == repo.head


@pytest.mark.parametrize(
    "obstacle", ["branch", "directory", "file above", "worktree", "checked out", "link"]
)
def test_what_is_not_ours_is_refused_with_the_remedy_and_left_as_it_is(
    repo: Repo, path: Path, tmp_path: Path, obstacle: str
) -> None:
    start = repo.head
    match obstacle:
        case "branch":
            repo.git("checkout", "--quiet", "-b", BRANCH)
            repo.commit({"mine.txt": "the user's\n"})
            remedy = f"git branch -m {BRANCH} NAME"
        case "directory":
            repo.write({"mine.txt": "the user's\n"}, cwd=path)
            remedy = "move it away"
        case "file above":
            repo.write({".worktrees": "the user's\n"})
            remedy = f"{repo.path}/.worktrees already exists"
        case "worktree":
            repo.worktree(path, "mine")
            remedy = "move it away"
        case "checked out":
            repo.worktree(tmp_path / "elsewhere", BRANCH)
            remedy = "switch that one to another branch"
        case _:
            (tmp_path / "target").mkdir()
            path.parent.mkdir(parents=True)
            path.symlink_to(tmp_path / "target")
            remedy = "move it away"
    before = repo.refs("refs/heads")
    existed = path.exists()
    result = run(repo, "intake", start_commit=start)
    assert result.cause == "misconfigured"
    assert remedy in result.error
    # The run is paused and the task still due: a requeue would be refused.
    assert "requeue" not in result.error
    assert repo.refs("refs/heads") == before
    assert path.exists() == existed


def test_nothing_is_made_through_a_link_above(repo: Repo, path: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path.parent.parent.mkdir()
    path.parent.symlink_to(tmp_path / "target")
    result = run(repo, "intake")
    assert result.cause == "misconfigured"
    assert f"{path.parent} is a symbolic link" in result.error
    assert list((tmp_path / "target").iterdir()) == []


def test_the_directory_of_all_worktrees_may_be_a_link(
    repo: Repo, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "fast-disk").mkdir()
    path.parent.parent.symlink_to(tmp_path / "fast-disk")
    assert run(repo, "intake").cause is None
    assert run(repo, "test", test=["true"]).cause is None


def test_a_branch_that_blocks_ours_is_named_and_nothing_is_left(repo: Repo, path: Path) -> None:
    repo.git("branch", "orchestrator")
    result = run(repo, "intake")
    assert result.cause == "misconfigured"
    assert "git branch -m orchestrator NAME" in result.error
    assert not path.exists()
    repo.git("branch", "-m", "orchestrator", "mine")
    assert run(repo, "intake").cause is None


@pytest.mark.parametrize(
    ("install", "said"),
    [
        (["sh", "-c", "echo no network; exit 7"], "exited 7: no network"),
        (["no-such-installer"], "exited 127: no-such-installer"),
        (["./a.txt"], "exited 126: ./a.txt"),
    ],
)
def test_an_install_that_fails_is_the_machines_fault(
    repo: Repo, install: list[str], said: str
) -> None:
    result = run(repo, "intake", install=install)
    assert result.cause == "infrastructure"
    assert said in result.error
    assert result.evidence["install_exit"] > 0
    assert run(repo, "intake", install=["true"], reset=["touch", "was-reset"]).cause is None
    assert (repo.path / ".worktrees" / RUN / "T1" / "was-reset").exists()
    assert [ref for ref in repo.refs(f"refs/orchestrator/{RUN}/T1/") if "salvage" in ref]


@pytest.mark.parametrize("lost", ["base", "dependency"])
def test_a_start_that_is_gone_is_named(repo: Repo, lost: str) -> None:
    needs = [dependency("T0")] if lost == "dependency" else []
    result = run(repo, "intake", base_commit="1" * 40, dependencies=needs)
    assert result.cause == "misconfigured"
    assert ("T0" if needs else "1" * 40) in result.error


def test_a_second_round_has_its_own_start(repo: Repo) -> None:
    run(repo, "intake")
    later = repo.commit({"a.txt": "later\n"})
    result = run(
        repo, "intake", branch=f"{BRANCH}-r2", worktree=f"{repo.root}/.worktrees/{RUN}/T1-r2"
    )
    assert result.evidence["start_commit"] == later
