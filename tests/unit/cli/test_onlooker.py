"""A task's raw outputs, followed while they grow: each is read once."""

import os
from pathlib import Path

from drivers.cli.onlooker import GrowingFile, Streams


def stream(directory: Path, name: str, text: str, *, at: int) -> Path:
    path = directory / f"{name}.stream.jsonl"
    with path.open("a") as file:
        file.write(text)
    os.utime(path, (at, at))
    return path


def read(streams: Streams) -> list[tuple[str, bool, list[bytes]]]:
    return [
        (f.path.name.partition(".")[0], f.is_new, list(f.new_lines())) for f in streams.to_read()
    ]


def test_an_output_that_says_nothing_for_a_while_is_new_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    file = GrowingFile(path)
    assert file.is_new
    assert list(file.new_lines()) == []
    assert not file.is_new


def test_an_output_that_still_grows_after_the_next_has_begun_is_not_read_again(
    tmp_path: Path,
) -> None:
    streams = Streams(tmp_path)
    stream(tmp_path, "old", "past\n", at=1)
    stream(tmp_path, "a", "1\n", at=2)
    assert read(streams) == [("a", True, [b"1"])]
    stream(tmp_path, "b", "2\n", at=3)
    assert read(streams) == [("a", False, []), ("b", True, [b"2"])]
    stream(tmp_path, "a", "late\n", at=4)
    assert read(streams) == [("b", False, [])]
