"""The shim writes JSON by hand, because importing json costs every dispatch 12 ms."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from adapters.execution.shim_record import Value, to_json, write_record

VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_any_reader_takes_back_what_was_written(value: Value) -> None:
    assert json.loads(to_json(value)) == value
    assert to_json(value).isascii()


def test_a_byte_that_is_no_text_becomes_a_replacement() -> None:
    assert json.loads(to_json(b"a\xffb".decode("utf-8", "surrogateescape"))) == "a\ufffdb"


def test_a_record_replaces_the_one_before_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.exit.json"
    for code in (1, 2):
        write_record(str(path), {"code": code}, synced=True)
        assert json.loads(path.read_text()) == {"code": code}
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "x.exit.json"
    write_record(str(path), {"code": 1}, synced=True)
    (tmp_path / "x.exit.json.tmp").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        write_record(str(path), {"code": 2}, synced=True)
    assert json.loads(path.read_text()) == {"code": 1}
