"""A child that says far too much, or hardly anything: the real driver, with a stream to match."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.e2e.cli_process import Home, make_home

pytestmark = pytest.mark.slow

TASK = '[[task]]\nid = "T1"\ntitle = "First"\n'
RUN = ("--run", "r1", "run-headless", "--wait")
GIGABYTE = r"""
block = b"x" * ((1 << 20) - 1) + b"\n"
for _ in range(1024):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""
DRIP = r"""
for byte in b'{"type":"news","more":0}\n':
    os.write(1, bytes([byte]))
    time.sleep(1.0 / 4)
"""
"""Six seconds, with two allowed for silence: each byte says that it lives."""
BEFORE = """
import os, sys, time
if not os.path.exists(__file__ + ".done"):
    open(__file__ + ".done", "w").close()
"""
AFTER = """
os.execv(sys.argv[1], sys.argv[1:])
"""
MEMORY_KB_MAX = 200_000


def batch(path: Path, first: str, **settings: str) -> Home:
    """Its implement stage does ``first``, and then goes well."""
    home = make_home(path, tasks=TASK)
    file = home.repository / ".orchestrator" / "project.toml"
    head, _, command = file.read_text().partition("command = ")
    script = path / "first.py"
    script.write_text(BEFORE + indent(first, "    ") + AFTER)
    words = [sys.executable, str(script), *json.loads(command)]
    file.write_text(f"{head}command = {json.dumps(words)}\n")
    home.json("--run", "r1", "init-run", "--lane", "micro")
    home.json("--run", "r1", "add-task", "--all")
    for key, value in settings.items():
        home.json("--run", "r1", "set", key, value)
    return home


def drive(home: Home) -> tuple[int, int]:
    """The exit status, and how much memory the driver had at most, in KB."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *RUN],
        cwd=home.repository,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(driver.pid, 0)
    driver.returncode = os.waitstatus_to_exitcode(status)
    return driver.returncode, usage.ru_maxrss


def streams(home: Home) -> list[Path]:
    return list((home.store("r1") / "stages").glob("*/*.stream.jsonl"))


def test_a_gigabyte_of_output_is_read_in_bounded_memory(tmp_path: Path) -> None:
    home = batch(tmp_path, GIGABYTE)
    try:
        status, memory_kb = drive(home)
        assert max(stream.stat().st_size for stream in streams(home)) > 1 << 30
    finally:
        for stream in streams(home):
            stream.unlink()
    assert status == 0
    assert memory_kb < MEMORY_KB_MAX
    assert home.json("--run", "r1", "status")["events_audit"]["attempts_spent"] == 0


def test_a_byte_now_and_then_is_a_sign_of_life(tmp_path: Path) -> None:
    home = batch(tmp_path, DRIP, idle_s="2", first_event_s="2")
    status, _ = drive(home)
    assert status == 0
    assert not list((home.store("r1") / "stages").glob("*/*.stall.json"))
    ended = [event for event in home.events("r1") if event["type"] == "stage_recorded"]
    assert [event.get("cause") for event in ended] == [None] * 4
