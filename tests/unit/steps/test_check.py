"""The test stage: what fails, and whether the base already failed at it."""

import os
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adapters.execution.steps.result import OUTPUT_BYTES_MAX, TAIL_BYTES_MAX, Result
from orchestrator.core.errors import WorktreeGone
from tests.unit.steps.repository import RUN, Repo
from tests.unit.steps.stages import run, run_and_read

UNITTEST = [sys.executable, "-m", "unittest", "-q"]
OLD = "import unittest\nclass T(unittest.TestCase):\n def test_old(self): self.assertTrue(0)\n"
GOOD = " def test_good(self): pass\n"
NEW = " def test_new(self): self.assertTrue(0)\n"


class Task:
    """One task after intake; the agent works in ``path``."""

    def __init__(self, repo: Repo, slug: str = "T1") -> None:
        self.repo = repo
        self.slug = slug
        self.start = repo.head
        run(repo, "intake", slug)
        self.path = repo.path / ".worktrees" / RUN / slug

    def write(self, files: dict[str, str]) -> None:
        self.repo.write(files, cwd=self.path)

    def check(self, **commands: Any) -> Result:
        return run(self.repo, "test", self.slug, start_commit=self.start, **commands)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(Repo(tmp_path / "repo", {"test_a.py": OLD + GOOD, "a.txt": "a\n"}))


def failing(*lines: str) -> list[str]:
    """A test command that fails as pytest would."""
    return ["sh", "-c", "; ".join(f"echo 'FAILED {line} - no'" for line in lines) + "; exit 1"]


def test_tests_that_pass_are_a_success_without_a_look_at_the_base(task: Task) -> None:
    result = task.check(test=["sh", "-c", "echo 3 passed"], lint=["true"])
    assert result.cause is None
    assert result.evidence["passed"] == 3
    assert [command["exit"] for command in result.evidence["commands"]] == [0, 0]
    assert not (task.repo.path.parent / "run" / "cache").exists()


def test_failures_of_the_base_are_not_the_works(task: Task) -> None:
    task.write({"test_b.py": "import unittest\n"})
    result = task.check(test=UNITTEST)
    assert result.cause is None
    assert result.evidence["failed"] == []
    assert result.evidence["base_failed"] == ["test_old (test_a.T.test_old)"]


@pytest.mark.parametrize("printed", ["No module named pytest", ""])
def test_a_command_that_fails_on_the_base_as_a_whole_is_said_to_prove_nothing(
    task: Task, printed: str
) -> None:
    result = task.check(test=["sh", "-c", f"echo '{printed}'; exit 1"], lint=["true"])
    assert result.cause is None
    said = result.evidence["proves_nothing"]
    assert "fails on the base too (exit 1): " in said
    assert said.endswith(printed or "it printed nothing")


def test_a_test_that_fails_by_name_on_the_base_proves_the_rest(task: Task) -> None:
    assert "proves_nothing" not in task.check(test=UNITTEST).evidence


def test_new_failures_are_the_works_and_a_retry_is_told_of_them(task: Task) -> None:
    task.write({"test_a.py": OLD + GOOD + NEW})
    result = task.check(test=UNITTEST)
    assert result.cause == "tests_failed"
    assert result.evidence["failed"] == ["test_new (test_a.T.test_new)"]
    assert result.evidence["base_failed"] == ["test_old (test_a.T.test_old)"]
    assert "test_new" in result.error
    assert "test_old" not in result.error
    told = result.evidence["learnings"]
    assert "- test_new" in told
    assert "AssertionError" in told
    assert len(told.encode()) <= TAIL_BYTES_MAX


def test_a_test_that_the_work_broke_is_new(task: Task) -> None:
    task.write({"test_a.py": OLD + GOOD.replace("pass", "self.fail()")})
    assert task.check(test=UNITTEST).evidence["failed"] == ["test_good (test_a.T.test_good)"]


def test_a_command_without_names_fails_as_a_whole(task: Task) -> None:
    grep = ["grep", "-q", "a", "a.txt"]
    task.write({"a.txt": "b\n"})
    assert task.check(test=grep).evidence["failed"] == ["command: grep -q a a.txt"]
    grep = ["grep", "-q", "c", "a.txt"]
    result = task.check(test=grep)
    assert result.cause is None
    assert result.evidence["base_failed"] == ["command: grep -q c a.txt"]


def test_the_same_names_with_another_exit_status_are_not_the_same(task: Task) -> None:
    command = ["sh", "-c", "echo 'FAILED a.py::x - no'; grep -q a a.txt && exit 1; exit 3"]
    assert task.check(test=command).cause is None
    task.write({"a.txt": "b\n"})
    result = task.check(test=command)
    assert result.cause == "tests_failed"
    assert "exit 3, on the base 1" in result.error


def test_new_problems_of_a_linter_count_and_old_ones_do_not(task: Task) -> None:
    lint = ["sh", "-c", "cat a.txt; exit 1"]
    base = task.repo.commit({"a.txt": "x.py:1:1: E1 old\n"})
    task.start = base
    task.write({"a.txt": "x.py:9:1: E1 old\n"})
    assert task.check(lint=lint, test=["true"]).cause is None
    task.write({"a.txt": "x.py:9:1: E1 old\nx.py:10:1: E2 new\n"})
    result = task.check(lint=lint, test=["true"])
    assert result.evidence["failed"] == ["x.py: E2 new"]


def test_no_test_command_is_said(task: Task) -> None:
    result = task.check()
    assert result.cause is None
    assert "no test command" in result.evidence["note"]


@pytest.mark.parametrize(
    "command", [["no-such-tool"], ["sh", "-c", "no-such-tool -x"], ["./a.txt"]]
)
def test_a_command_that_cannot_be_run_anywhere_is_the_machines_fault(
    task: Task, command: list[str]
) -> None:
    result = task.check(test=command)
    assert result.cause == "infrastructure"
    assert "cannot be run" in result.error


def test_a_command_that_the_work_took_away_is_the_works_fault(task: Task) -> None:
    script = task.repo.path / "run-tests"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(stat.S_IRWXU)
    task.repo.git("add", "run-tests")
    task.repo.git("commit", "--quiet", "-m", "a script")
    task.start = task.repo.head
    result = task.check(test=["./run-tests"])
    assert result.cause == "tests_failed"
    assert result.evidence["failed"] == ["command: ./run-tests"]


@pytest.mark.parametrize(
    ("signal", "cause"), [("KILL", "infrastructure"), ("TERM", "infrastructure")]
)
def test_a_command_killed_from_outside_is_the_machines_fault(
    task: Task, signal: str, cause: str
) -> None:
    for command in ([f"kill -{signal} $$"], [f"sh -c 'kill -{signal} $$'; exit $?"]):
        result = task.check(test=["sh", "-c", *command])
        assert result.cause == cause
        assert "killed by signal" in result.error


def test_a_command_that_crashes_by_itself_is_the_works_fault(task: Task) -> None:
    crash = ["sh", "-c", "grep -q a a.txt || kill -SEGV $$"]
    task.write({"a.txt": "b\n"})
    assert task.check(test=crash).cause == "tests_failed"


def test_the_base_is_installed_first_and_its_checkout_goes(task: Task) -> None:
    task.write({"a.txt": "b\n"})
    command = ["sh", "-c", "test -e installed && grep -q a a.txt"]
    result = task.check(test=command, install=["touch", "installed"])
    assert result.evidence["commands"][0]["base_exit"] == 0
    assert result.cause == "tests_failed"
    assert os.listdir(task.path.parent) == ["T1"]
    assert task.repo.git("worktree", "list", "--porcelain").count("worktree ") == 2


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"install": ["false"]}, "install exited 1"),
        ({"baseline_timeout_s": 0.2}, "more than 0.2 s"),
    ],
)
def test_without_a_base_to_compare_with_every_failure_is_new_and_it_is_said(
    task: Task, more: dict[str, Any], note: str
) -> None:
    task.write({"a.txt": "b\n"})
    command = ["sh", "-c", "grep -q a a.txt && sleep 30; echo 'FAILED a.py::x - no'; exit 1"]
    started = time.monotonic()
    result = task.check(test=command, **more)
    assert time.monotonic() - started < 10
    assert result.evidence["failed"] == ["a.py::x"]
    assert note in result.evidence["commands"][0]["base_note"]


def test_the_base_is_found_out_once_however_many_ask_at_once(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", {"a.txt": "base\n"})
    tasks = [Task(repo, f"T{n}") for n in range(3)]
    count = tmp_path / "count"
    command = ["sh", "-c", f"grep -q base a.txt && echo >> {count}; echo 'FAILED a.py::x'; exit 1"]
    results: list[Result] = []

    def check(task: Task) -> None:
        task.write({"a.txt": "work\n"})
        results.append(task.check(test=command))

    threads = [threading.Thread(target=check, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.evidence["base_failed"] for result in results] == [["a.py::x"]] * 3
    assert count.read_text() == "\n"


@pytest.mark.parametrize("left", ["(sleep 5; echo late)", "yes late"])
def test_what_a_command_left_behind_does_not_hold_the_stage(task: Task, left: str) -> None:
    started = time.monotonic()
    result, lines = run_and_read(task.repo, "test", test=["sh", "-c", f"{left} & echo early"])
    assert time.monotonic() - started < 4
    assert result.cause is None
    assert any("early\n" in line.get("text", "") for line in lines)


def test_output_is_bounded_and_its_end_is_kept(task: Task) -> None:
    flood = f"head -c {3 * OUTPUT_BYTES_MAX} /dev/zero | tr '\\0' 'x' | fold; echo the end"
    result, lines = run_and_read(
        task.repo, "test", start_commit=task.start, test=["sh", "-c", f"{flood}; exit 1"]
    )
    assert sum(len(str(line)) for line in lines) < 4 * OUTPUT_BYTES_MAX  # of two runs
    assert lines[-1].get("exit") == 1
    assert result.evidence["base_failed"]
    texts = [line["text"] for line in lines if line["type"] == "output"]
    assert texts[-1].endswith("the end\n")


def test_no_command_runs_where_the_worktree_is_gone(task: Task) -> None:
    task.repo.git("worktree", "remove", "--force", str(task.path))
    with pytest.raises(WorktreeGone, match="is gone"):
        task.check(test=["true"])


@pytest.mark.parametrize("which", ["itself", "above"])
def test_no_command_runs_through_a_link(task: Task, which: str) -> None:
    moved = task.path if which == "itself" else task.path.parent
    moved.rename(task.repo.path / "moved")
    moved.symlink_to(task.repo.path / "moved")
    with pytest.raises(WorktreeGone, match=f"leads to {task.repo.path}/moved"):
        task.check(test=["touch", "ran-here"])
    assert not list(task.repo.path.glob("moved/**/ran-here"))


def test_a_command_that_replaces_the_worktree_is_the_last(task: Task) -> None:
    replace = (
        f"cd /; mv {task.path} {task.path}.moved; ln -s {task.repo.path} {task.path}; exit 127"
    )
    with pytest.raises(WorktreeGone, match="leads to"):
        task.check(lint=["sh", "-c", f"{replace}; exit 127"], test=["touch", "ran-here"])
    assert not (task.repo.path / "ran-here").exists()


def test_a_reset_that_wipes_the_worktree_loses_nothing_of_the_work(task: Task) -> None:
    task.write({"new/b.txt": "new\n", "test_a.py": OLD})
    (task.path / "a.txt").unlink()
    test = ["sh", "-c", "cat new/b.txt && ! test -e a.txt && ! grep test_good test_a.py"]
    wipe = ["sh", "-c", "git reset -q --hard && git clean -qfdx && cat a.txt"]
    result = task.check(test=test, reset=wipe)
    assert result.evidence["commands"][0]["exit"] == 0, result
    refs = task.repo.refs(f"refs/orchestrator/{RUN}/T1/")
    (commit,) = [commit for ref, commit in refs.items() if "/salvage-" in ref]
    assert task.repo.git("ls-tree", "-r", "--name-only", commit) == "new/b.txt\ntest_a.py"


def test_a_reset_that_fails_is_the_machines_fault(task: Task) -> None:
    result = task.check(test=["true"], reset=["sh", "-c", "echo no network; exit 3"])
    assert result.cause == "infrastructure"
    assert "the reset command exited 3: no network" in result.error
