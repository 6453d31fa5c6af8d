"""Somebody removes a task's worktree while it is at work: a person is told, at once."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli_process import Home, git, make_home

pytestmark = pytest.mark.slow

TASK = '[[task]]\nid = "T1"\ntitle = "First"\n'
RUN = ("--run", "r1", "run-headless", "--wait")
LEAVES = 'do = [{ write = "a.txt", text = "a" }, { run = "cd / && rm -rf \'PATH\'" }]\n'


def batch(path: Path, calls: str) -> Home:
    home = make_home(path, tasks=TASK, scenario="schema = 1\n" + calls)
    project = home.repository / ".orchestrator" / "project.toml"
    project.write_text(project.read_text() + 'allowed_tools = ["Bash"]\n')
    home.json("--run", "r1", "init-run", "--lane", "lite")
    home.json("--run", "r1", "add-task", "--all")
    return home


def worktree(home: Home) -> Path:
    return home.repository / ".worktrees" / "r1" / "T1"


def of_type(home: Home, kind: str) -> list[dict[str, Any]]:
    return [event for event in home.events("r1") if event["type"] == kind]


def is_held_once(home: Home) -> str:
    (held,) = of_type(home, "task_held")
    (row,) = home.json("--run", "r1", "status")["tasks"]
    assert row["state"] == "held"
    assert "is gone" in held["reason"]
    assert "requeue" in held["reason"]
    return str(held["reason"])


def test_under_a_stage(tmp_path: Path) -> None:
    gone = str(tmp_path / "repository" / ".worktrees" / "r1" / "T1")
    home = batch(tmp_path, '[[call]]\nstage = "implement"\n' + LEAVES.replace("PATH", gone))
    done = home.orchestrator(*RUN)
    assert done.returncode == 3, done.stderr
    is_held_once(home)
    (record,) = [e for e in of_type(home, "stage_recorded") if e["stage"] == "implement"]
    assert record["cause"] == "worktree_gone"
    assert record["cost"]["cost_usd"] > 0, "what it cost is on the bill"


@pytest.mark.parametrize("stage", ["implement", "review"])
def test_before_a_stage_goes_on(tmp_path: Path, stage: str) -> None:
    home = batch(tmp_path, f'[[call]]\nstage = "{stage}"\nfault = "no_credit"\n')
    assert home.orchestrator(*RUN).returncode == 3
    shutil.rmtree(worktree(home))
    home.json("--run", "r1", "unpause")
    done = home.orchestrator(*RUN)
    assert done.returncode == 3, done.stderr
    assert ("is kept as commit" in is_held_once(home)) == (stage == "review")
    assert len([e for e in of_type(home, "stage_dispatched") if e["stage"] == stage]) <= 2


def test_what_replaced_it_is_never_worked_in(tmp_path: Path) -> None:
    """The agent puts a link to the user's own checkout there, and fails: it is not tried again."""
    path = str(tmp_path / "repository" / ".worktrees" / "r1" / "T1")
    replace = f"cd / && mv {path} {path}.moved && ln -s {tmp_path}/repository {path}"
    home = batch(
        tmp_path,
        '[[call]]\nstage = "implement"\nstart = 1\nfault = "schema_missing"\n'
        f'do = [{{ run = "{replace}" }}]\n'
        '[[call]]\nstage = "implement"\ndo = [{ write = "was-here.txt", text = "a" }]\n',
    )
    done = home.orchestrator(*RUN)
    assert done.returncode == 3, done.stderr
    (held,) = of_type(home, "task_held")
    assert f"leads to {home.repository}" in held["reason"]
    assert len([e for e in of_type(home, "stage_dispatched") if e["stage"] == "implement"]) == 1
    assert not (home.repository / "was-here.txt").exists()
    assert git(home.repository, "rev-list", "--count", "HEAD") == "1"


def test_after_a_requeue_all_is_there_again(tmp_path: Path) -> None:
    gone = str(tmp_path / "repository" / ".worktrees" / "r1" / "T1")
    once = '[[call]]\nstage = "implement"\nstart = 1\n' + LEAVES.replace("PATH", gone)
    home = batch(tmp_path, once)
    assert home.orchestrator(*RUN).returncode == 3
    home.json("--run", "r1", "requeue", "T1")
    done = home.orchestrator(*RUN)
    assert done.returncode == 0, done.stderr
