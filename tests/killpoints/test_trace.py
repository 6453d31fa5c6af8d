"""That a fault fired is read from strace's own words; these are some of them."""

import signal
from pathlib import Path

import pytest

from tests.killpoints.points import JOURNAL, Fault, Point, Trace, kind_of

KILLED = """\
11 fdatasync(10</runs/r1/events.jsonl>) = 0
12 write(3</runs/r1/stages/A/intake-attempt1.prompt.txt>, "{"..., 9 <unfinished ...>
11 write(10</runs/r1/events.jsonl>, "{"..., 400) = 400
12 <... write resumed>) = 9
11 fdatasync(10</runs/r1/events.jsonl> <unfinished ...>
10 +++ killed by SIGKILL +++
11 <... fdatasync resumed>) = ?
11 +++ killed by SIGKILL +++
"""
FAILED = """\
11 fdatasync(10</runs/r1/events.jsonl>) = 0
12 write(2<pipe:[7]>, "x"..., 1) = 1
11 fdatasync(10</runs/r1/events.jsonl> <unfinished ...>
12 write(2<pipe:[7]>, "x"..., 1) = 1
11 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)
11 +++ exited with 5 +++
"""


def trace(path: Path, said: str) -> Trace:
    (path / "log").write_text(said)
    return Trace.read(path / "log")


def sync(number: int, fault: Fault) -> Point:
    return Point("fdatasync", number, fault, JOURNAL)


def test_a_kill_fired_at_the_last_call_of_its_thread_and_nowhere_else(tmp_path: Path) -> None:
    seen = trace(tmp_path, KILLED)
    assert seen.fired(sync(2, Fault.KILL), -signal.SIGKILL) == "events.jsonl"
    assert seen.fired(sync(1, Fault.KILL), -signal.SIGKILL) is None
    assert seen.fired(sync(3, Fault.KILL), -signal.SIGKILL) is None
    assert seen.fired(Point("rename", 1, Fault.KILL), -signal.SIGKILL) is None
    assert seen.fired(sync(2, Fault.KILL), 0) is None


def test_an_error_fired_where_strace_says_that_it_injected_it(tmp_path: Path) -> None:
    seen = trace(tmp_path, FAILED)
    assert seen.fired(sync(2, Fault.EIO), 5) == "events.jsonl"
    assert seen.fired(Point("write", 2, Fault.EIO), 5) is None
    assert trace(tmp_path, FAILED.replace(" (INJECTED)", "")).fired(sync(2, Fault.EIO), 5) is None
    assert seen.fired(sync(2, Fault.ROLLBACK), 5) is None


def test_a_census_counts_per_thread_and_file(tmp_path: Path) -> None:
    seen = trace(tmp_path, FAILED)
    assert seen.most("write") == 2
    assert seen.most("fdatasync", JOURNAL) == 2
    assert seen.most("fdatasync", "driver.jsonl") == 0
    assert trace(tmp_path, KILLED).files("write", ".prompt.txt") == [
        "/runs/r1/stages/A/intake-attempt1.prompt.txt"
    ]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/r/stages/A/.01-intake.json.new-7", "NN-stage.json"),
        ("/r/stages/A/intake-attempt1.work.json", "*.work.json"),
        ("pipe:[7]", "pipes to git"),
        ("", "spawns and threads"),
    ],
)
def test_files_of_a_kind_share_a_row(file: str, kind: str) -> None:
    assert kind_of(file) == kind
