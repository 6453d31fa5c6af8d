"""What may be said on stderr and in driver.log, and how often."""

import os
import pty
from pathlib import Path

from drivers.headless.narration import open_narration, secrets_of


def test_it_is_said_on_stderr_and_in_the_log(tmp_path: Path) -> None:
    log, stderr = tmp_path / "driver.log", tmp_path / "stderr"
    with stderr.open("w") as stream:
        open_narration(log, secrets=(), stderr=stream).info("dispatched", task="#12", pid=None)
    assert log.read_text() == stderr.read_text()
    assert log.read_text().startswith("note: ")
    assert log.read_text().endswith(" dispatched task=#12\n")


def test_where_stderr_is_the_log_it_is_said_once(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    with log.open("a") as stream:
        open_narration(log, secrets=(), stderr=stream).info("dispatched")
    assert len(log.read_text().splitlines()) == 1


def test_a_terminal_has_short_lines_and_the_log_all_of_it(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    ours, terminal = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(terminal, "w") as stream:
        narration = open_narration(log, secrets=["hunter2hunter2"], stderr=stream)
        narration.info("dispatched", task="#12", stage="implement", attempt=2, model="sonnet")
        narration.info("started", task="#12", stage="implement", pid=5)
        narration.info("recorded", task="#12", stage="test", cause="tests_failed", why="a b fails")
        narration.info("recorded", task="#12", stage="review", outcome="completed", usd="0.1234")
        narration.info("recorded", task="#12", stage="test", proves_nothing="x fails")
        narration.info("at work", task="#12", stage="test", pid=5, by=None, ends_within_s="3598")
        narration.info("at work", task="#12", stage="scope", by="hand", ends_within_s="0")
        narration.info("odd hunter2hunter2", prompt="PROMPT", some_value=3)
        data = b""
        while not data.endswith(b"some value 3\r\n"):
            data += reader.read(4096)
        shown = data.decode().splitlines()
    assert [line[8:] for line in shown] == [
        "  #12           implement begins, attempt 2 (sonnet)",
        "  #12           test ended with tests failed: a b fails",
        "  #12           review done, 0.12 USD; the task is COMPLETED",
        "  #12           test done; proves nothing: x fails",
        "  #12           test is at work, pid 5, for 60 min at most",
        "  #12           scope is at work, by hand, for 0 s at most",
        "  -             odd [secret]: some value 3",
    ]
    told = log.read_text().splitlines()
    assert len(told) == 8
    assert told[1].endswith(" started task=#12 stage=implement pid=5")


def test_no_secret_and_no_agents_word_passes(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    secrets = secrets_of({"MY_API_KEY": "hunter2hunter2", "PATH": "/usr/bin:/bin"})
    assert secrets == {"hunter2hunter2"}
    open_narration(log, secrets=secrets, stderr=None).info(
        "recorded hunter2hunter2",
        error="said hunter2hunter2 and sk-ant-api03-abcdefgh\nand more",
        prompt="PROMPT",
        raw_output="WORDS",
    )
    text = log.read_text()
    assert text.endswith(' recorded [secret] error="said [secret] and [secret] and more"\n')


def test_a_value_is_short_and_drives_no_terminal(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    open_narration(log, secrets=(), stderr=None).info("odd", error="\x1b[2J" + "x" * 5000)
    assert "\x1b" not in log.read_text()
    assert len(log.read_text()) < 500


def test_a_pipe_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"), os.fdopen(writer, "w") as stream:
        narration = open_narration(log, secrets=(), stderr=stream)
        for number in range(3000):
            narration.info("dispatched", number=number, error="x" * 200)
    assert len(log.read_text().splitlines()) == 3000


def test_a_reader_that_went_away_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        open_narration(log, secrets=(), stderr=stream).info("dispatched")
    assert "dispatched" in log.read_text()
