"""What install makes and nobody changes is no part of any task's branch, and keeps no worktree."""

from pathlib import Path

import pytest

from tests.e2e.cli_process import Home, git, make_home

pytestmark = pytest.mark.slow

TASKS = """
[[task]]
id = "T1"
title = "First"

[[task]]
id = "T2"
title = "Second"
depends_on = ["T1"]
"""
INSTALL = (
    "mkdir -p node_modules/.bin && echo x > node_modules/x.js && ln -s ../x.js node_modules/.bin/x"
    " && echo made > package-lock.json && echo rewritten > tracked-lock.json"
)
SCENARIO = """
schema = 1

[[call]]
task = "T1"
stage = "implement"
attempt = 1
do = [{ write = "work.txt", text = "1" }]

[[call]]
task = "T1"
stage = "review"
attempt = 1
start = 1
[call.output]
approved = false
issues = [{ severity = "major", file = "work.txt", description = "no" }]
non_blocking = []

[[call]]
task = "T1"
stage = "implement"
attempt = 2
do = [{ write = "node_modules/patch.js", text = "2" }, { write = "package-lock.json", text = "2" }]
"""


def batch(path: Path) -> Home:
    home = make_home(path, tasks=TASKS, scenario=SCENARIO)
    (home.repository / "tracked-lock.json").write_text("as it was\n")
    project = home.repository / ".orchestrator" / "project.toml"
    commands = f"install = '''{INSTALL}'''\ntest = 'test -e node_modules/x.js'\n"
    project.write_text(f"{project.read_text()}[commands]\n{commands}")
    git(home.repository, "add", ".")
    git(home.repository, "commit", "-qm", "install")
    home.json("--run", "r1", "init-run", "--lane", "lite")
    home.json("--run", "r1", "add-task", "--all")
    return home


def test_branches_hold_the_work_alone(tmp_path: Path) -> None:
    home = batch(tmp_path)
    done = home.orchestrator("--run", "r1", "run-headless", "--wait")
    assert done.returncode == 0, done.stderr
    of_t1 = ["A\tnode_modules/patch.js", "A\tpackage-lock.json", "A\twork.txt"]
    first, second = "orchestrator/r1/T1", "orchestrator/r1/T2"
    assert git(home.repository, "diff", "--name-status", "main", first).splitlines() == of_t1
    assert git(home.repository, "show", f"{first}:package-lock.json") == "2"
    changed = git(home.repository, "diff", "--name-status", first, second)
    assert changed == "A\tREHEARSAL-T2.txt"
    store = home.store("r1")
    for prompt in (store / "stages").glob("*/review-*.prompt.txt"):
        assert "x.js" not in prompt.read_text()
        assert "rewritten" not in prompt.read_text()
    log = (store / "driver.log").read_text()
    assert "node_modules/, package-lock.json" in log
    assert "stay off the branch" in log
    assert not (home.repository / ".worktrees" / "r1").exists(), log
