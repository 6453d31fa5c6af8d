"""Lines: their form is a promise, and what was written by others is understood or refused."""

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, strategies as st

from orchestrator.core.events import KnownEvent, RunCreated, Unknown
from orchestrator.core.settings import Project, Settings
from orchestrator.journal.codec import (
    ENVELOPE_FIELDS,
    VERSION,
    Line,
    Unreadable,
    WrittenByNewer,
    decode,
    decode_lines,
    encode_commit,
    timestamp,
)
from tests.unit.journal.events import NOW, begun, dispatched, paused, recorded


def test_a_line_is_the_envelope_then_the_event_and_the_last_ends_the_commit() -> None:
    data, _ = encode_commit([paused(), paused("again")], after_seq=7, run_id="r1", now=NOW)
    first, last, rest = data.split(b"\n")
    assert first == (
        b'{"v":1,"seq":8,"ts":"2026-11-30T18:00:00.123456Z","run_id":"r1",'
        b'"type":"run_paused","reason":"a person asked"}'
    )
    assert last.endswith(b'"reason":"again","end":true,"of":2}')
    assert rest == b""
    alone, _ = encode_commit([paused()], after_seq=0, run_id="r1", now=NOW)
    assert alone.endswith(b'"end":true}\n')


@pytest.mark.parametrize("event", [*begun(), dispatched("T1"), recorded("#1"), paused()])
def test_what_is_written_is_what_is_read(event: KnownEvent) -> None:
    data, entries = encode_commit([event], after_seq=0, run_id="r 1", now=NOW)
    assert entries[0].event == event
    assert decode(data[:-1]) == (entries[0], True, 0)
    assert json.loads(data)["type"] == type(event).__struct_config__.tag


@given(st.integers(0, 4_000_000_000_000_000))
def test_times_keep_their_microseconds(microseconds: int) -> None:
    now = microseconds / 1_000_000
    _, entries = encode_commit([paused()], after_seq=0, run_id="r1", now=now)
    assert entries[0].ts == now


def test_times_are_utc() -> None:
    assert timestamp(0.0) == "1970-01-01T00:00:00.000000Z"
    assert timestamp(1796061600.9999999) == "2026-11-30T18:00:01.000000Z"


def test_no_event_uses_a_name_of_the_envelope() -> None:
    for kind in get_args(KnownEvent):
        names = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert not names & {*ENVELOPE_FIELDS, "type"}, kind


def test_types_and_fields_of_a_newer_version_have_no_effect() -> None:
    data, _ = encode_commit([paused()], after_seq=0, run_id="r1", now=NOW)
    entry, ends, _ = decode(data[:-1].replace(b"run_paused", b"run_teleported"))
    assert (entry.event, ends) == (Unknown(type="run_teleported"), True)
    entry, _, _ = decode(data[:-1].replace(b'"type"', b'"where":[1],"type"'))
    assert entry.event == paused()


def test_text_with_lone_surrogates_can_be_recorded() -> None:
    _, entries = encode_commit([paused("a\ud800b")], after_seq=0, run_id="r1", now=NOW)
    assert entries[0].event == paused("a?b")


@pytest.mark.parametrize(
    "line", [b"", b"\0\0", b"{}", b"[1]", b'{"v":1}', b"\xff\xfe", b'{"v":0,"seq":1}', b"nul"]
)
def test_what_is_no_line_is_unreadable(line: bytes) -> None:
    with pytest.raises(Unreadable):
        decode(line)


WHOLE, _ = encode_commit([*begun(), dispatched("T1"), paused()], after_seq=0, run_id="r", now=NOW)


def one_by_one(data: bytes) -> tuple[list[Line], str]:
    lines: list[Line] = []
    for line in data.split(b"\n")[:-1]:
        try:
            lines.append(decode(line))
        except Unreadable as error:
            return lines, str(error)
    return lines, ""


@given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.binary(max_size=4))
def test_lines_at_once_are_read_as_each_by_itself(start: int, length: int, put: bytes) -> None:
    assert decode_lines(WHOLE) == one_by_one(WHOLE)
    damaged = WHOLE[:start] + put + WHOLE[start + length :]
    try:
        expected = one_by_one(damaged)
    except WrittenByNewer:
        with pytest.raises(WrittenByNewer):
            decode_lines(damaged)
    else:
        assert decode_lines(damaged) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"run_paused", b"run_teleported"), (b"\n", b"\n\n"), (b"\n", b""), (b"\n", b"\n[]\n")],
)
def test_lines_of_which_one_is_another_kind(old: bytes, new: bytes) -> None:
    data = WHOLE.replace(old, new)
    assert decode_lines(data) == one_by_one(data)


def test_lines_of_a_newer_format_are_refused() -> None:
    newer = WHOLE.replace(b'{"v":%d,"seq":3' % VERSION, b'{"v":%d,"seq":3' % (VERSION + 1))
    assert newer != WHOLE
    with pytest.raises(WrittenByNewer):
        decode_lines(newer)


def test_what_a_run_was_told_is_written_down_whole() -> None:
    """Another version may have other defaults: those of an old run stay."""
    created = RunCreated(settings=Settings(), project=Project(name="p", root="/p"))
    line, _ = encode_commit([created], after_seq=0, run_id="r", now=NOW)
    assert set(json.loads(line)["settings"]) == {f.name for f in msgspec.structs.fields(Settings)}
