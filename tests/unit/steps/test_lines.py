"""The bounded line splitter."""

import time

from hypothesis import given, strategies as st

from adapters.execution.lines import LineSplitter


@given(st.lists(st.binary(max_size=40)), st.integers(1, 12))
def test_any_chunking_gives_the_lines_that_fit_and_counts_the_rest(
    chunks: list[bytes], line_bytes_max: int
) -> None:
    splitter = LineSplitter(line_bytes_max)
    seen = [line for chunk in chunks for line in splitter.feed(chunk)]
    *lines, tail = b"".join(chunks).split(b"\n")
    assert seen == [line for line in lines if len(line) <= line_bytes_max]
    assert splitter.oversize_count == sum(len(line) > line_bytes_max for line in lines)
    assert splitter.close() == (tail if len(tail) <= line_bytes_max else b"")
    assert splitter.torn_count == bool(tail)


def test_a_line_of_100_megabytes_is_skipped_in_linear_time_and_the_next_one_is_read() -> None:
    splitter = LineSplitter(1024)
    chunk = b"x" * 65536
    started = time.perf_counter()
    for _ in range(1600):
        assert splitter.feed(chunk) == []
    assert splitter.feed(b"\nnext\n") == [b"next"]
    assert time.perf_counter() - started < 2.0
    assert splitter.oversize_count == 1


def test_a_line_under_the_limit_arriving_in_small_pieces_is_joined_once() -> None:
    splitter = LineSplitter()
    for _ in range(100_000):
        splitter.feed(b"0123456789")
    (line,) = splitter.feed(b"\n")
    assert len(line) == 1_000_000
