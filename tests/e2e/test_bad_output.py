"""Who listens, or does not, changes nothing of how the driver ends."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.e2e.cli_process import Home, make_home
from tests.e2e.test_cli_driver import until

TASK = '[[task]]\nid = "T1"\ntitle = "First"\n'
SLOW = "schema = 1\nduration_s = 120\n"
FINE = "schema = 1\n"
FAILS = 'schema = 1\n[[call]]\nstage = "implement"\nfault = "max_turns"\n'
WITHIN_S = 60
WORDS = ("--run", "r1", "run-headless", "--wait")

pytestmark = pytest.mark.slow


def batch(path: Path, scenario: str) -> Home:
    home = make_home(path, tasks=TASK, scenario=scenario)
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    return home


@contextmanager
def output(kind: str) -> Iterator[int]:
    """A descriptor that takes nothing."""
    if kind == "full disk":
        if not Path("/dev/full").exists():
            pytest.skip("this system has no /dev/full")
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def begin(
    home: Home, words: Sequence[str], *, stdout: int, on_terminal: bool = False
) -> Iterator["subprocess.Popen[str]"]:
    def take_the_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=home.repository,
        env=home.environment(),
        stdin=stdout if on_terminal else subprocess.DEVNULL,
        stdout=stdout,
        stderr=stdout if on_terminal else subprocess.PIPE,
        text=True,
        start_new_session=on_terminal,
        preexec_fn=take_the_terminal if on_terminal else None,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def client_at_work(home: Home) -> psutil.Process:
    stages = home.store("r1") / "stages"
    until("the client is started", lambda: any(stages.glob("*/implement-attempt1.shim.json")))
    (record,) = stages.glob("*/implement-attempt1.shim.json")
    return psutil.Process(json.loads(record.read_text())["child"]["pid"])


def ended(driver: "subprocess.Popen[str]") -> str:
    said = driver.communicate(timeout=WITHIN_S)[1] or ""
    assert "Traceback" not in said
    return said


def left_no_traceback(home: Home) -> None:
    assert not list(home.path.rglob("orchestrator-errors.log"))


@pytest.mark.parametrize("kind", ["closed pipe", "full disk"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_that_signal(tmp_path: Path, kind: str, number: signal.Signals) -> None:
    home = batch(tmp_path, SLOW)
    with output(kind) as stdout, begin(home, WORDS, stdout=stdout) as driver:
        client = client_at_work(home)
        driver.send_signal(number)
        ended(driver)
    client.kill()
    assert driver.returncode == -number
    left_no_traceback(home)


@pytest.mark.parametrize("kind", ["closed pipe", "full disk"])
@pytest.mark.parametrize(("scenario", "status"), [(FINE, 0), (FAILS, 6)])
def test_a_run_that_has_ended_keeps_its_status(
    tmp_path: Path, kind: str, scenario: str, status: int
) -> None:
    home = batch(tmp_path, scenario)
    for _ in range(2):  # the second finds it finished
        with output(kind) as stdout, begin(home, WORDS, stdout=stdout) as driver:
            said = ended(driver)
        assert driver.returncode == status, said
        assert ("the status is not shown" in said) == (kind == "full disk")
    left_no_traceback(home)


def test_a_terminal_that_is_closed_ends_it_as_a_hangup(tmp_path: Path) -> None:
    home = batch(tmp_path, SLOW)
    master, slave = os.openpty()
    with begin(home, WORDS, stdout=slave, on_terminal=True) as driver:
        os.close(slave)
        client = client_at_work(home)
        os.close(master)
        ended(driver)
    assert driver.returncode == -signal.SIGHUP
    assert client.is_running(), "it goes on under its shim"
    client.kill()
    left_no_traceback(home)


@pytest.mark.parametrize("verb", [("status", "--text"), ("status",), ("audit",), ("tail", "T1")])
def test_other_commands_end_quietly_for_a_pipe_and_in_one_line_for_a_full_disk(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    home = batch(tmp_path, FINE)
    assert home.orchestrator(*WORDS).returncode == 0
    for kind, status in (("closed pipe", -signal.SIGPIPE), ("full disk", 5)):
        words = ("--run", "r1", *verb)
        with output(kind) as stdout, begin(home, words, stdout=stdout) as driver:
            said = ended(driver)
        told = [line for line in said.splitlines() if not line.startswith("note: ")]
        assert driver.returncode == status
        assert len(told) == (kind == "full disk"), said
