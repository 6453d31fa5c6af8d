"""When a launcher takes a driver for begun."""

from pathlib import Path

from drivers.headless.detach import has_begun

START = b'{"type":"driver_start","pid":%d}\n'
BEAT = b'{"type":"driver_heartbeat","tick":1}\n'


def log(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "driver.jsonl"
    path.write_bytes(data)
    return path


def test_nothing_has_begun_where_nothing_is_written(tmp_path: Path) -> None:
    assert not has_begun(tmp_path / "driver.jsonl", 0, 7)


def test_a_start_alone_is_not_enough(tmp_path: Path) -> None:
    path = log(tmp_path, START % 7)
    assert not has_begun(path, 0, 7)
    path.write_bytes(START % 7 + BEAT)
    assert has_begun(path, 0, 7)


def test_a_beat_that_is_half_written_does_not_count(tmp_path: Path) -> None:
    assert not has_begun(log(tmp_path, START % 7 + BEAT[:-1]), 0, 7)


def test_another_drivers_beat_does_not_count(tmp_path: Path) -> None:
    path = log(tmp_path, START % 7 + BEAT + START % 8)
    assert not has_begun(path, 0, 8)


def test_an_earlier_life_of_this_pid_does_not_count(tmp_path: Path) -> None:
    earlier = START % 7 + BEAT
    path = log(tmp_path, earlier + b'{"torn\n' + START % 7)
    assert not has_begun(path, len(earlier), 7)
    path.write_bytes(path.read_bytes() + BEAT)
    assert has_begun(path, len(earlier), 7)
