"""A line that is nested deeper than anything can be read: refused by number, never skipped."""

from pathlib import Path

import pytest

from drivers.cli.main import main
from orchestrator.core.errors import ExitStatus
from orchestrator.journal.codec import Unreadable, decode, decode_lines, encode_commit, is_torn
from tests.unit.journal.events import NOW, added, created

DEEP = b"[" * 100_000 + b"]" * 100_000
OBJECT = b'{"v":1,"seq":2,"ts":"2026-11-29T00:00:00Z","run_id":"r1","type":"x","y":' + DEEP + b"}"


def test_it_is_unreadable_and_not_torn() -> None:
    with pytest.raises(Unreadable):
        decode(OBJECT)
    assert not is_torn(OBJECT)
    assert is_torn(OBJECT[:-1])
    assert is_torn(DEEP)


def test_a_journal_with_such_a_line_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = encode_commit([created(), added("a")], after_seq=0, run_id="r1", now=NOW)[0]
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / "events.jsonl").write_bytes(first + OBJECT + b"\n")
    assert decode_lines(first + OBJECT + b"\n")[1]
    for words in (["status"], ["pause"]):
        assert main(["--root", str(tmp_path), "--run", "r1", *words]) == ExitStatus.ENVIRONMENT
        said = capsys.readouterr().err.splitlines()[-1]
        assert "line 3" in said
        assert "unexpected" not in said


@pytest.mark.parametrize(
    "result",
    [DEEP, b'{"status":' + DEEP + b"}", b'{"usage":{"a":' + b"[" * 200 + b"]" * 200 + b"}}"],
)
def test_such_a_result_is_none(
    result: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = encode_commit([created(), added("a")], after_seq=0, run_id="r1", now=NOW)[0]
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / "events.jsonl").write_bytes(lines)
    (tmp_path / "result").write_bytes(result)
    words = ["--text", "record", "--result", str(tmp_path / "result")]
    assert main(["--root", str(tmp_path), "--run", "r1", *words]) == ExitStatus.USAGE
    said = capsys.readouterr()
    assert "nested" in said.out
    assert "unexpected" not in said.err
