"""``orchestrator demo``: the real driver, its children, git; only the thinking is scripted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters.execution.rehearsal.sample_repository import TASK_IDS

SOURCE = Path(__file__).parents[2]
DONE_WITHIN_S = 180
DEMO = [sys.executable, "-P", "-m", "orchestrator", "demo", "--json"]


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(SOURCE)}


def shell(line: str, home: Path) -> str:
    done = subprocess.run(
        line, shell=True, env=environment(home), cwd=home, capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.mark.slow
def test_leaves_tested_branches_a_bill_that_adds_up_and_a_clean_audit(tmp_path: Path) -> None:
    place = tmp_path / "the demo"
    done = subprocess.run(
        [*DEMO, "--dir", str(place)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        timeout=DONE_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["run_state"] == "completed"
    assert set(said["branches"]) == set(TASK_IDS)
    assert said["rehearsal"] is True

    commands = said["commands"]
    status = json.loads(shell(commands["status"], tmp_path))
    assert status["events_audit"]["clean"]
    assert status["lane_audit"]["clean"]
    assert status["events_audit"]["attempts_spent"] == 1, "one try fails its tests"
    shell(commands["audit"], tmp_path)
    assert "Count words" in shell(commands["branches"], tmp_path)
    assert "= success" in shell(commands["activity"], tmp_path)

    by_task = said["cost"]["by_task"]
    assert sum(by_task.values()) == pytest.approx(said["cost"]["total_usd"])
    rows = (Path(said["store"]) / "stage-costs.jsonl").read_text().splitlines()
    assert sum(json.loads(row)["cost_usd"] for row in rows) == pytest.approx(
        said["cost"]["total_usd"]
    )

    repository = Path(said["repository"])
    checkout = tmp_path / "checkout"
    for branch in said["branches"].values():
        shell(f"git -C '{repository}' worktree add --detach '{checkout}' {branch}", tmp_path)
        tests = subprocess.run(
            [sys.executable, "-m", "unittest", "-q"], cwd=checkout, capture_output=True, check=False
        )
        assert tests.returncode == 0, (branch, tests.stderr)
        shell(f"git -C '{repository}' worktree remove --force '{checkout}'", tmp_path)
    assert not list(tmp_path.glob(".claude*")), "its sessions are not the user's"


@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on_and_that_finishes_it(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--dir", str(tmp_path / "demo")],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert demo.stderr is not None
    for line in demo.stderr:
        if b"scope done" in line:
            break
    demo.send_signal(signal.SIGINT)
    stdout, _ = demo.communicate(timeout=DONE_WITHIN_S)
    assert demo.returncode == -signal.SIGINT
    said = json.loads(stdout)
    assert (said["run_state"], said["exit_status"]) == ("running", 130)
    status = json.loads(shell(said["commands"]["go_on"], tmp_path))
    assert status["run_state"] == "completed"
    assert status["events_audit"]["dispatched"] == status["events_audit"]["recorded"]
    assert status["events_audit"]["attempts_spent"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--dir", "."], 1, "is there and not an empty directory"),
        (["--budget-usd", "3"], 2, "--budget-usd is for --real"),
        (["--real"], 5, "claude is not on PATH"),
    ],
)
def test_refuses_in_one_line(tmp_path: Path, arguments: list[str], status: int, words: str) -> None:
    (tmp_path / "something").touch()
    done = subprocess.run(
        [*DEMO, *arguments],
        env=environment(tmp_path) | {"PATH": _path_without_claude(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_spends_nothing_unasked(tmp_path: Path) -> None:
    programs = _path_without_claude(tmp_path)
    (Path(programs) / "claude").symlink_to("/bin/false")
    done = subprocess.run(
        [*DEMO, "--real", "--budget-usd", "2"],
        env=environment(tmp_path) | {"PATH": programs},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"at most 2 USD" in done.stderr
    assert b"--yes" in done.stderr


def _path_without_claude(folder: Path) -> str:
    programs = folder / "programs"
    programs.mkdir()
    for name in ("git", "python3"):
        (programs / name).symlink_to("/bin/true")
    return str(programs)
