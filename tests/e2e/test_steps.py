"""The steps' program as a process: killed at every call of git and run again; side by side.

``git`` on its PATH is a script that counts the calls and at a chosen one kills the program,
before or after the real git did its work.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adapters.execution.steps.lane import PROGRAM
from adapters.workspace import snapshot
from adapters.workspace.repository import Repository
from adapters.workspace.worktree import get
from tests.unit.steps.repository import AUTHOR, RUN, Repo
from tests.unit.steps.stages import dependency, inputs

GIT_CALLS_MAX = 40

COUNTING_GIT = """\
#!/bin/sh
count=$(($(cat {dir}/count 2>/dev/null || echo 0) + 1))
echo $count > {dir}/count
[ $count = {kill_at} ] && [ {when} = before ] && kill -KILL $PPID && exit 1
{git} "$@"
status=$?
[ $count = {kill_at} ] && [ {when} = after ] && kill -KILL $PPID
exit $status
"""

LOOKING_GIT = """\
#!/bin/sh
case " $* " in *" checkout "*|*" worktree add "*)
    {python} -c 'import fcntl
fcntl.flock(open("{lock}"), fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null && echo "$*" >> {alone}
esac
exec {git} "$@"
"""
"""Writes down the calls that make or look at worktrees while nobody holds the repository's lock."""


def start(
    repo: Repo, fields: dict[str, Any], *, path: str = "", **environ: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM)],
        input=json.dumps(fields),
        cwd=repo.root,
        env={"PATH": f"{path}:{os.environ['PATH']}", "HOME": "/nonexistent", **AUTHOR, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


def finish(repo: Repo, fields: dict[str, Any], **environ: str) -> dict[str, Any]:
    """Run it to its end."""
    done = start(repo, fields, **environ)
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert result["type"] == "stage_result"
    assert done.returncode == (result["status"] != "success")
    return result


def killed(repo: Repo, fields: dict[str, Any], when: str, kill_at: int) -> bool:
    """Run it with a kill at one call of git.  False: it got through with fewer calls."""
    bin_dir = repo.path.parent / f"{fields['slug']}-{when}-{kill_at}"
    bin_dir.mkdir()
    script = bin_dir / "git"
    text = COUNTING_GIT.format(dir=bin_dir, kill_at=kill_at, when=when, git=shutil.which("git"))
    script.write_text(text)
    script.chmod(0o755)
    return start(repo, fields, path=str(bin_dir)).returncode == -signal.SIGKILL


def assert_no_scratch(repo: Repo, worktrees: int) -> None:
    assert not list((repo.path / ".git" / "orchestrator").glob("making-*"))
    listed = repo.git("worktree", "list", "--porcelain")
    assert listed.count("worktree ") == 1 + worktrees
    assert "prunable" not in listed
    assert repo.git("status", "--porcelain") == ""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo", {"a.txt": "a\n"})


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_intake_killed_at_any_call_of_git_is_finished_by_the_next(repo: Repo, when: str) -> None:
    for n in range(2):
        repo.git("checkout", "--quiet", "-b", f"orchestrator/{RUN}/D{n}", "main")
        repo.commit({f"new{n}.txt": f"{n}\n"})
    repo.git("checkout", "--quiet", "main")
    needs = [dependency("D0"), dependency("D1")]
    for at in range(1, GIT_CALLS_MAX):  # each time on a task of its own
        fields = inputs(repo, "intake", f"T{at}", dependencies=needs, install=["true"])
        if not killed(repo, fields, when, at):
            break
        result = finish(repo, fields)
        assert result["status"] == "success", result
        branch, path = fields["branch"], fields["worktree"]
        assert repo.git("rev-parse", branch) == result["output"]["start_commit"]
        assert repo.git("rev-list", "--count", "--merges", f"main..{branch}") == "1"
        assert repo.git("status", "--porcelain", "--branch", cwd=path) == f"## {branch}"
        assert {"new0.txt", "new1.txt"} <= set(os.listdir(path))
        assert_no_scratch(repo, worktrees=at)
    assert 8 < at < GIT_CALLS_MAX - 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delivery_killed_at_any_call_of_git_is_finished_by_the_next(
    repo: Repo, when: str
) -> None:
    base = repo.head
    for at in range(1, GIT_CALLS_MAX):
        slug = f"T{at}"
        assert finish(repo, inputs(repo, "intake", slug))["status"] == "success"
        path = f"{repo.root}/.worktrees/{RUN}/{slug}"
        # The hardest case: the agent rewrote the start, and stands on a branch of its own.
        repo.git("commit", "--quiet", "--amend", "-m", f"rewritten by {slug}", cwd=path)
        rewritten = repo.git("rev-parse", "HEAD", cwd=path)
        repo.git("checkout", "--quiet", "-b", f"own-{slug}", cwd=path)
        repo.write({"new.txt": f"{slug}\n"}, cwd=path)
        worktree = get(Repository.open(repo.root), path)
        ref = f"refs/orchestrator/{RUN}/{slug}/03-implement"
        commit, tree = snapshot.keep(worktree, ref, "checkpoint")
        fields = inputs(repo, "deliver", slug, start_commit=base, checkpoint={"commit": commit})
        if not killed(repo, fields, when, at):
            break
        result = finish(repo, fields)
        assert result["status"] == "success", result
        branch = fields["branch"]
        assert result["output"] == {"branch": branch, "commit": repo.git("rev-parse", branch)}
        assert repo.git("rev-parse", f"{branch}^{{tree}}", f"{branch}^") == f"{tree}\n{base}"
        assert rewritten in repo.refs(f"refs/orchestrator/{RUN}/{slug}").values()
        assert repo.git("status", "--porcelain", "--branch", cwd=path) == f"## {branch}"
    assert 6 < at < GIT_CALLS_MAX - 1


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_test_stage_killed_at_any_call_of_git_is_finished_by_the_next(
    repo: Repo, when: str
) -> None:
    repo.commit({"test.sh": "cat fails; exit 1\n", "fails": "FAILED a.py::old\n"})
    for at in range(1, GIT_CALLS_MAX):
        slug = f"T{at}"
        assert finish(repo, inputs(repo, "intake", slug))["status"] == "success"
        path = f"{repo.root}/.worktrees/{RUN}/{slug}"
        repo.write({"fails": "FAILED a.py::old\nFAILED a.py::new\n"}, cwd=path)
        fields = inputs(
            repo, "test", slug, test=["sh", "test.sh"], run_dir=f"{repo.path.parent}/run-{at}"
        )
        if not killed(repo, fields, when, at):
            break
        result = finish(repo, fields)
        assert result["cause"] == "tests_failed", result
        assert result["evidence"]["failed"] == ["a.py::new"]
        assert result["evidence"]["base_failed"] == ["a.py::old"]
        assert_no_scratch(repo, worktrees=at)
    assert 4 < at < GIT_CALLS_MAX - 1


def test_a_test_stage_killed_while_the_base_runs_begins_that_anew(
    repo: Repo, tmp_path: Path
) -> None:
    repo.commit({"test.sh": f"[ -e new ] || {{ rm {tmp_path}/kill && kill -9 $PPID; }}; exit 1\n"})
    finish(repo, inputs(repo, "intake"))
    path = Path(repo.root, ".worktrees", RUN, "T1")
    (path / "new").touch()
    (tmp_path / "kill").touch()
    fields = inputs(repo, "test", test=["sh", "test.sh"])
    assert start(repo, fields).returncode == -signal.SIGKILL
    assert len(list(path.parent.iterdir())) == 2
    result = finish(repo, fields)
    assert result["status"] == "success"
    assert result["evidence"]["base_failed"] == ["command: sh test.sh"]
    assert_no_scratch(repo, worktrees=1)


@pytest.mark.slow
def test_many_intakes_at_once_get_each_their_own(repo: Repo) -> None:
    repo.commit({f"many/{n}.txt": f"{n}\n" for n in range(200)})
    slugs = [f"T{n}" for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda slug: finish(repo, inputs(repo, "intake", slug)), slugs))
    assert [result["status"] for result in results] == ["success"] * 8
    for slug in slugs:
        path = f"{repo.root}/.worktrees/{RUN}/{slug}"
        branch = f"orchestrator/{RUN}/{slug}"
        assert repo.git("status", "--porcelain", "--branch", cwd=path) == f"## {branch}"
    assert_no_scratch(repo, worktrees=8)


def test_git_looks_at_all_worktrees_only_while_none_is_being_made(
    repo: Repo, tmp_path: Path
) -> None:
    script, alone = tmp_path / "git", tmp_path / "alone"
    lock = repo.path / ".git" / "orchestrator" / "lock"
    script.write_text(
        LOOKING_GIT.format(python=sys.executable, lock=lock, alone=alone, git=shutil.which("git"))
    )
    script.chmod(0o755)
    done = start(repo, inputs(repo, "intake"), path=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert lock.exists()
    assert not alone.exists(), alone.read_text()


def test_nothing_of_the_repository_stands_in_for_our_modules_or_runs_as_a_hook(
    repo: Repo, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    names = ("json", "os", "subprocess", "sitecustomize", "usercustomize", "adapters/__init__")
    hostile = f"open({str(ran)!r}, 'a').write(__file__)\nraise SystemExit(3)\n"
    repo.commit({f"{name}.py": hostile for name in names})
    for name in ("post-checkout", "reference-transaction", "post-index-change", "post-commit"):
        hook = repo.path / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\nexit 1\n")
        hook.chmod(0o755)
    path = repo.path / ".worktrees" / RUN / "T1"
    fields = inputs(repo, "intake", install=["true"])
    assert finish(repo, fields, PYTHONPATH=repo.root, PYTHONHOME="/x")["status"] == "success"
    fields = inputs(repo, "test", test=["sh", "-c", "exit 1"])
    assert finish(repo, fields, PYTHONPATH=repo.root)["status"] == "success"
    (path / "a.txt").write_text("changed\n")
    worktree = get(Repository.open(repo.root), str(path))
    commit, _ = snapshot.keep(worktree, f"refs/orchestrator/{RUN}/T1/x", "checkpoint")
    fields = inputs(repo, "deliver", checkpoint={"commit": commit})
    assert finish(repo, fields)["status"] == "success"
    assert not ran.exists()


def test_an_interrupt_ends_the_command_and_leaves_no_result(repo: Repo, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    fields = inputs(repo, "intake", install=["sh", "-c", f"exec 9>{begun}; echo x >&9; sleep 60"])
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(PROGRAM)],
        cwd=repo.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(fields).encode())
        process.stdin.close()
        process.stdin = None
        with begun.open() as held_by_command:
            assert held_by_command.readline() == "x\n"
            process.send_signal(signal.SIGINT)
            assert held_by_command.read() == ""  # the command is gone
        out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"stage_result" not in out
    assert err == b""


@pytest.mark.parametrize(
    ("text", "cause", "said"),
    [
        ("not json", "misconfigured", "not JSON"),
        ("[]", "misconfigured", "not a JSON object"),
        ('{"stage": "scope"}', "misconfigured", "no deterministic stage 'scope'"),
        ('{"stage": "intake"}', "misconfigured", "lack 'root'"),
        ('{"stage": "intake", "root": "/absent"}', "misconfigured", "/absent is not a directory"),
    ],
)
def test_inputs_that_mean_nothing_are_named(text: str, cause: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM)], input=text, capture_output=True, text=True
    )
    result = json.loads(done.stdout)
    assert (done.stderr, done.returncode) == ("", 1)
    assert (result["cause"], said in result["error"]) == (cause, True)
