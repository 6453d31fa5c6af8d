"""A flood of lines that mean nothing is read with bounded work between two turns of the others."""

from pathlib import Path

import pytest
import trio

from adapters.execution.claude import wire
from adapters.execution.claude.stream import ClaudeReader
from adapters.execution.tail import CHUNK_BYTES, Tail
from tests.unit.claude.recorded import init, reply, result


async def test_others_have_their_turn_after_each_bounded_piece(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    path.write_bytes(init() + reply() + b"x{\n" * 60_000 + result())
    reader = ClaudeReader()
    pieces: list[int] = []
    turns = 0

    def feed(data: bytes) -> None:
        pieces.append(len(data))
        reader.feed(data)

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with Tail(path) as tail:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await tail.feed(feed)
            nursery.cancel_scope.cancel()
    assert max(pieces) <= CHUNK_BYTES <= 1 << 15
    assert turns >= len(pieces) // 2 > 1
    assert reader.seen.unreadable_lines == 60_000
    assert reader.seen.result is not None


@pytest.mark.parametrize("line", [b"x{", b"{" * 10_000, b"[" * 10_000, b"{" * 5 + b"}" * 5])
def test_what_has_no_key_is_not_searched_for_objects(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_decoder", None)
    assert wire.objects(line) == ()


def test_of_an_endless_array_the_end_counts() -> None:
    found = wire.objects(b"[" + b"{}," * 100_000 + b'{"type":"result"}]')
    assert len(found) == 10_000
    assert found[-1] == {"type": "result"}
