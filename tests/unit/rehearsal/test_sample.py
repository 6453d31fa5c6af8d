"""The sample repository: its tests fail without the tasks' changes, and pass with them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from adapters.execution.rehearsal.sample_repository import SCENARIO, TASK_IDS, make_repository
from adapters.execution.rehearsal.scenario import Call, Who, load


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "sample"
    make_repository(root, agent_env={"CLAUDE_CONFIG_DIR": str(tmp_path / "agent home")})
    return root


def test_is_one_commit_with_everything_in_it(repository: Path) -> None:
    assert _git(repository, "status", "--porcelain") == ""
    assert _git(repository, "rev-list", "--count", "main") == "1"
    assert _tests_pass(repository)


def test_its_project_file_names_the_agent(repository: Path, tmp_path: Path) -> None:
    agent = tomllib.loads((repository / ".orchestrator" / "project.toml").read_text())["agent"]
    assert agent["env"] == {"CLAUDE_CONFIG_DIR": str(tmp_path / "agent home")}
    asked = subprocess.run(
        [*agent["command"], "--version"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert "rehearsal" in asked.stdout


def test_its_tasks_are_those_of_the_scenario(repository: Path) -> None:
    tasks = tomllib.loads((repository / "tasks.toml").read_text())["task"]
    assert tuple(task["id"] for task in tasks) == TASK_IDS
    for call in load(str(SCENARIO)).calls:
        assert call.get("task", "slug") in TASK_IDS


def test_nothing_is_written_over(repository: Path) -> None:
    with pytest.raises(FileExistsError):
        make_repository(repository)


@pytest.mark.parametrize("task", TASK_IDS)
def test_the_tests_of_a_task_fail_before_its_change_and_pass_after(
    repository: Path, task: str
) -> None:
    for other in TASK_IDS[: TASK_IDS.index(task)]:
        _apply(repository, _implement(other, attempt=2))
    call = _implement(task, attempt=2)
    _apply(repository, call, only="tests/")
    assert not _tests_pass(repository)
    _apply(repository, call)
    assert _tests_pass(repository)


def test_the_first_try_at_counting_fails_its_own_tests(repository: Path) -> None:
    _apply(repository, _implement("counts", attempt=1))
    assert not _tests_pass(repository)


def _implement(task: str, *, attempt: int) -> Call:
    return load(str(SCENARIO)).call(Who(task, "implement", attempt), 1)


def _apply(repository: Path, call: Call, only: str = "") -> None:
    for step in call.steps:
        if step.kind == "Write" and step.input["file_path"].startswith(only):
            path = repository / step.input["file_path"]
            path.parent.mkdir(exist_ok=True)
            path.write_text(step.input["content"])


def _tests_pass(repository: Path) -> bool:
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    return subprocess.run(command, cwd=repository, capture_output=True, check=False).returncode == 0


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=repository, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
