"""Ctrl-C on a terminal, and SIGTERM, whenever they come: it ends as of that signal, in its own
words, and the same command goes on as if nothing had been."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.cli_process import Home
from tests.e2e.test_bad_output import WORDS, batch, begin, client_at_work
from tests.e2e.test_cli_driver import until

pytestmark = pytest.mark.slow

CALL = 'schema = 1\n[[call]]\nstage = "implement"\nstart = 1\nduration_s = {}\n'
SCENARIO = CALL.format(1.5)
WITHIN_S = 60
CTRL_C = b"\x03"
WORDS_OF_AN_ERROR = ("Traceback", "KeyboardInterrupt", "Exception", "orchestrator: ")


def has(home: Home, words: str) -> bool:
    return words in (home.store("r1") / "events.jsonl").read_text()


MOMENTS: Mapping[str, Callable[[Home], bool]] = {
    "as it begins": lambda home: True,
    "as it takes its lock": lambda home: (home.store("r1") / "driver.lock").exists(),
    "at its first heartbeat": lambda home: (home.store("r1") / "driver.jsonl").exists(),
    "as it claims the run": lambda home: has(home, "driver_claimed"),
    "at its first intent": lambda home: has(home, "stage_dispatched"),
    "between two stages": lambda home: has(home, "stage_recorded"),
    "over a child at work": lambda home: bool(client_at_work(home)),
}


@contextmanager
def on_a_terminal(home: Home) -> Iterator[tuple["subprocess.Popen[str]", int, bytearray]]:
    """The driver, a descriptor to type at, and what it shows."""
    master, slave = os.openpty()
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while data := os.read(master, 1 << 16):
                shown.extend(data)

    with begin(home, WORDS, stdout=slave, on_terminal=True) as driver:
        os.close(slave)
        reader = threading.Thread(target=read)
        reader.start()
        yield driver, master, shown
    reader.join(WITHIN_S)
    os.close(master)


def goes_on(home: Home) -> None:
    done = home.orchestrator(*WORDS)
    assert done.returncode == 0, done.stderr
    status = home.json("--run", "r1", "status")
    assert (status["run_state"], status["events_audit"]["attempts_spent"]) == ("completed", 0)
    assert home.json("--run", "r1", "audit")["clean"]
    assert not list(home.path.rglob("orchestrator-errors.log"))


def nothing_was_lost(home: Home, before: bytes) -> None:
    assert (home.store("r1") / "events.jsonl").read_bytes().startswith(before)


# As it begins, Python itself may be the one that is interrupted, and answers in its own way.
@pytest.mark.parametrize("moment", [each for each in MOMENTS if each != "as it begins"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(tmp_path: Path, moment: str, times: int) -> None:
    home = batch(tmp_path, SCENARIO)
    home.json("--run", "r1", "set", "drain_s", "0.5")
    with on_a_terminal(home) as (driver, keyboard, shown):
        until(moment, lambda: MOMENTS[moment](home))
        for _ in range(times):
            with suppress(OSError):
                os.write(keyboard, CTRL_C)
        driver.wait(WITHIN_S)
    said = shown.decode("utf-8", "replace")
    assert driver.returncode == -signal.SIGINT, said
    assert [words for words in WORDS_OF_AN_ERROR if words in said] == []
    goes_on(home)


def test_the_second_ctrl_c_ends_the_children(tmp_path: Path) -> None:
    home = batch(tmp_path, CALL.format(120))
    with on_a_terminal(home) as (driver, keyboard, shown):
        client = client_at_work(home)
        os.write(keyboard, CTRL_C)
        until("the first is heard", lambda: shown.count(b"Ctrl-C") > 1)
        assert driver.poll() is None, "it waits for results"
        os.write(keyboard, CTRL_C)
        driver.wait(WITHIN_S)
    assert driver.returncode == -signal.SIGINT
    assert not is_alive(client)
    goes_on(home)


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_as_it_starts_and_works(tmp_path: Path, moment: str) -> None:
    home = batch(tmp_path, SCENARIO)
    with begin(home, WORDS, stdout=subprocess.DEVNULL) as driver:
        until(moment, lambda: MOMENTS[moment](home))
        driver.send_signal(signal.SIGTERM)
        said = driver.communicate(timeout=WITHIN_S)[1]
    assert driver.returncode == -signal.SIGTERM, said
    assert [words for words in WORDS_OF_AN_ERROR if words in said] == []
    goes_on(home)


@pytest.mark.parametrize("how", ["--drain", "--now", "SIGINT", "SIGTERM"])
def test_sigterm_while_it_stops(tmp_path: Path, how: str) -> None:
    """It is already on its way out: it ends as of the one or of the other, and nothing is lost."""
    home = batch(tmp_path, SCENARIO)
    with begin(home, WORDS, stdout=subprocess.DEVNULL) as driver:
        client_at_work(home)
        before = (home.store("r1") / "events.jsonl").read_bytes()
        if how.startswith("--"):
            assert home.orchestrator("--run", "r1", "stop", how).returncode == 0
        else:
            driver.send_signal(signal.Signals[how])
        driver.send_signal(signal.SIGTERM)
        said = driver.communicate(timeout=WITHIN_S)[1]
    statuses = {-signal.SIGTERM, 3} | ({-signal.SIGINT} if how == "SIGINT" else set())
    assert driver.returncode in statuses, said
    assert [words for words in WORDS_OF_AN_ERROR if words in said] == []
    nothing_was_lost(home, before)
    (last,) = json.loads(f"[{(home.store('r1') / 'driver.jsonl').read_text().splitlines()[-1]}]")
    assert last["type"] == "driver_exit"
    home.orchestrator("--run", "r1", "unpause")
    goes_on(home)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
