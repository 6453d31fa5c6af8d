"""The files of a dispatch: their names, and what their lock says."""

import os
from pathlib import Path

import pytest

from adapters.execution.stems import Stem, latest_start


def test_the_names_are_those_that_the_interface_promises(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "implement-attempt2.d3")
    begin = str(tmp_path / "implement-attempt2.d3")
    names = [stem.prompt, stem.work, stem.lock, stem.shim, stem.stream, stem.stderr, stem.exit]
    assert [str(name).removeprefix(begin) for name in names] == [
        ".prompt.txt",
        ".work.json",
        ".lock",
        ".shim.json",
        ".stream.jsonl",
        ".stderr.log",
        ".exit.json",
    ]


def test_a_second_start_shares_the_prompt_and_nothing_else(tmp_path: Path) -> None:
    first = Stem.first(tmp_path / "scope-attempt1")
    second = first.second
    assert (second.prompt, second.work) == (first.prompt, first.work)
    assert second.stream == tmp_path / "scope-attempt1.s2.stream.jsonl"
    assert (first.is_second, second.is_second) == (False, True)
    assert latest_start(first) == first
    second.stream.touch()
    assert latest_start(first) == second


def test_the_lock_is_held_until_its_last_descriptor_is_closed(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "x")
    assert not stem.is_locked()
    fd = stem.take_lock()
    assert stem.is_locked()
    with pytest.raises(BlockingIOError):
        stem.take_lock()
    heir = os.dup(fd)
    os.close(fd)
    assert stem.is_locked()
    os.close(heir)
    assert not stem.is_locked()


def test_a_look_does_not_take_the_lock(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "x")
    os.close(stem.take_lock())
    assert [stem.is_locked() for _ in range(3)] == [False] * 3
    os.close(stem.take_lock())


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "x")
    assert (stem.read_exit(), stem.read_shim()) == (None, None)
    for damage in ("", "{", '{"reason": 3}', "\0" * 100):
        stem.exit.write_text(damage)
        stem.shim.write_text(damage)
        assert (stem.read_exit(), stem.read_shim()) == (None, None)


def test_the_last_words_are_bounded(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "x")
    assert stem.stderr_tail() == ""
    stem.stderr.write_bytes(b"\xff" + b"a" * 100_000 + b"the end")
    assert stem.stderr_tail(9) == "aathe end"
    assert len(stem.stderr_tail()) == 8192
