"""What the kernel refuses or is slow with: no locks, no processes, a sync of five seconds."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.cli_process import Home, make_home, the_one_line
from tests.e2e.under_strace import DELAYED, INJECTED, strace

pytestmark = pytest.mark.slow

TASK = '[[task]]\nid = "T1"\ntitle = "First"\n'
RUN = ("--run", "r1", "run-headless", "--wait")
WITHIN_S = 120
PROGRAM = ("-m", "orchestrator")
QUICK_HEART = (
    "-c",
    "import sys\n"
    "from drivers.headless import heartbeat\n"
    "heartbeat.HEARTBEAT_S = 0.2\n"
    "from drivers.cli.main import main\n"
    "sys.exit(main(sys.argv[1:]))",
)
"""The program with a heart that beats often enough for a test."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = make_home(tmp_path, tasks=TASK)
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    return home


def run(
    home: Home, before: Sequence[str], words: Sequence[str], program: Sequence[str] = PROGRAM
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, *program, *words],
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def is_completed_without_an_attempt_lost(home: Home) -> None:
    status = home.json("--run", "r1", "status")
    assert status["run_state"] == "completed"
    assert status["events_audit"]["attempts_spent"] == 0
    assert home.json("--run", "r1", "audit")["clean"]


@pytest.mark.parametrize("words", [RUN, ("--run", "r1", "pause")], ids=["run-headless", "pause"])
def test_a_file_system_without_locks_is_refused_with_the_remedy(
    home: Home, words: tuple[str, ...]
) -> None:
    log, before = home.path / "strace.log", len(home.events("r1"))
    done = run(home, strace(log, "flock:error=ENOLCK"), words)
    assert INJECTED in log.read_text()
    assert done.returncode == 5
    told = the_one_line(done)
    assert "support" in told
    assert "lock" in told
    assert "ORCHESTRATOR_RUNS_ROOT" in told
    assert len(home.events("r1")) == before
    assert home.orchestrator(*RUN).returncode == 0


def test_a_machine_without_a_process_to_spare_for_a_moment_costs_nothing(home: Home) -> None:
    """Counted per thread: the one that starts shims meets it, and those that run git."""
    log = home.path / "strace.log"
    forks = "clone,clone3,fork,vfork"
    done = run(home, strace(log, f"{forks}:error=EAGAIN:when=3..4"), RUN)
    assert INJECTED in log.read_text()
    assert done.returncode == 0, done.stderr
    is_completed_without_an_attempt_lost(home)


def test_heartbeats_go_on_while_a_sync_takes_five_seconds(home: Home) -> None:
    log, store = home.path / "strace.log", home.store("r1")
    before = strace(
        log,
        "fdatasync:delay_enter=5000000:when=3",
        paths=[store / "events.jsonl", store / "driver.jsonl"],
        also=["write"],
    )
    done = run(home, before, RUN, QUICK_HEART)
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    ends = next(number for number, line in enumerate(lines) if line.endswith(DELAYED))
    thread = lines[ends].split()[0]
    begins = max(
        number
        for number, line in enumerate(lines[: ends + 1])
        if line.startswith(thread) and "fdatasync(" in line
    )
    beats = [line for line in lines[begins:ends] if "driver.jsonl" in line and "write(" in line]
    assert len(beats) >= 3, lines[begins : ends + 1]
    assert not [line for line in beats if line.startswith(f"{thread} ")]
