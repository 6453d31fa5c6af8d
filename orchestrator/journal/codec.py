"""An event and its line: encode, decode, and what each version of the format means.

A line is one JSON object: the envelope (``v seq ts run_id``), then the event, and on
the last line of a commit ``"end":true`` (with ``"of":n`` where the commit has n > 1
lines).  Invariant: what encode() returns has been read back, so that the live state
and a later replay are folded from the same values.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, get_args

import msgspec

from orchestrator.core.errors import EnvironmentFault, InvariantBroken
from orchestrator.core.events import Entry, Event, KnownEvent, Unknown

VERSION = 1

UPGRADERS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version to the next: what turns an older line's object into a newer one's."""

ENVELOPE_FIELDS = ("v", "seq", "ts", "run_id", "end", "of")
"""Names that no event may use for a field."""


class Unreadable(ValueError):
    """A line that is not an event: torn, or damaged.  The reader knows which."""


class WrittenByNewer(EnvironmentFault):
    """The journal's format is newer than this program."""

    def __init__(self, version: int, where: str = "") -> None:
        super().__init__(
            f"{where}the journal has format {version}, and this version of orchestrator reads up to"
            f" {VERSION}: use the version that wrote it, or a newer one"
        )
        self.version = version
        self.lines_before = 0
        """In what was to be decoded: all of them are readable."""


Line = tuple[Entry, bool, int]
"""An entry; whether a commit ends with it; of how many lines, or 0 where that is not said.

A plain tuple: a named one costs a tenth of decode()."""


class _Envelope(msgspec.Struct):
    v: int
    seq: int
    ts: Annotated[datetime, msgspec.Meta(tz=True)]
    run_id: str
    type: str
    end: bool = False
    of: int = 0


class _EnvelopeOfNow(_Envelope):
    v: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]


class _Version(msgspec.Struct):
    v: int


_encoder = msgspec.json.Encoder()
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_envelopes = msgspec.json.Decoder(_EnvelopeOfNow).decode_lines
_decode_event = msgspec.json.Decoder(KnownEvent).decode
_decode_events = msgspec.json.Decoder(KnownEvent).decode_lines
_decode_version = msgspec.json.Decoder(_Version).decode
_KNOWN_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(KnownEvent))
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, said by the Z
_FIRST_S = (datetime.min - _EPOCH).total_seconds()  # noqa: DTZ901
_LAST_S = (datetime(9999, 12, 31) - _EPOCH).total_seconds()  # noqa: DTZ001


def encode_commit(
    events: Sequence[KnownEvent], *, after_seq: int, run_id: str, now: float
) -> tuple[bytes, tuple[Entry, ...]]:
    """The bytes of one commit, and its entries as any reader will see them."""
    envelope = b',"ts":"%s","run_id":%s,' % (
        timestamp(now).encode(),
        _encoder.encode(run_id),
    )
    last = len(events) - 1
    lines: list[bytes] = []
    entries: list[Entry] = []
    for index, event in enumerate(events):
        payload = _payload(event)
        line = b'{"v":%d,"seq":%d%s%s' % (VERSION, after_seq + 1 + index, envelope, payload[1:])
        if index == last:
            line = line[:-1] + (b',"end":true,"of":%d}' % len(events) if last else b',"end":true}')
        try:
            entries.append(decode(line)[0])
        except Unreadable as error:
            raise InvariantBroken(
                f"a {type(event).__name__} event cannot be written: {error}"
            ) from error
        lines.append(line)
    lines.append(b"")
    return b"\n".join(lines), tuple(entries)


def decode(line: bytes) -> Line:
    """Raises Unreadable for what is no line of ours, WrittenByNewer for a newer format's."""
    try:
        envelope = _decode_envelope(line)
        if envelope.v != VERSION:
            line = _upgrade(line, envelope.v)
            envelope = _decode_envelope(line)
        event: Event
        if envelope.type in _KNOWN_TYPES:
            event = _decode_event(line)
        else:
            event = Unknown(type=envelope.type)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _refuse_other_format(line)
        raise Unreadable(str(error)) from error
    return _line(envelope, event)


def decode_lines(data: bytes) -> tuple[list[Line], str]:
    """What decode() makes of the whole lines in ``data``, up to the first that is unreadable; and
    what is wrong with that one, empty where there is none.  Raises WrittenByNewer."""
    whole = data[: data.rfind(b"\n") + 1]
    lines = _decode_at_once(whole)
    if lines is not None:
        return lines, ""
    lines = []
    for line in whole.split(b"\n")[:-1]:
        try:
            lines.append(decode(line))
        except Unreadable as error:
            return lines, str(error)
        except WrittenByNewer as newer:
            newer.lines_before = len(lines)
            raise
    return lines, ""


def is_torn(line: bytes) -> bool:
    """Of a whole line that decode() refuses: a write that was cut off leaves no JSON object."""
    try:
        return not isinstance(msgspec.json.decode(line), dict)
    except RecursionError:
        return not (line.startswith(b"{") and line.endswith(b"}"))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return True


def _decode_at_once(whole_lines: bytes) -> list[Line] | None:
    """In one call for all of them a line costs less.  None where any has to be looked at by
    itself: unreadable, of another format, or of an unknown type."""
    try:
        envelopes = _decode_envelopes(whole_lines)
        events = _decode_events(whole_lines)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not len(envelopes) == len(events) == whole_lines.count(b"\n"):
        return None
    return list(map(_line, envelopes, events))


def _line(envelope: _Envelope, event: Event) -> Line:
    entry = Entry(seq=envelope.seq, ts=envelope.ts.timestamp(), run_id=envelope.run_id, event=event)
    return entry, envelope.end, envelope.of


def timestamp(ts: float) -> str:
    """Epoch seconds as the journal writes them: UTC, microseconds, ``Z``.  What is out of the
    calendar's reach is put to its end."""
    ts = min(max(ts, _FIRST_S), _LAST_S) if ts == ts else 0.0
    moment = _EPOCH + timedelta(microseconds=round(ts * 1_000_000))
    return moment.isoformat(timespec="microseconds") + "Z"


def _payload(event: KnownEvent) -> bytes:
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        # Lone surrogates, from an agent's text: they have no UTF-8 form.
        return _encoder.encode(_without_surrogates(msgspec.to_builtins(event)))


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
        case _:
            return value


def _upgrade(line: bytes, version: int) -> bytes:
    if version > VERSION:
        raise WrittenByNewer(version)
    fields: dict[str, Any] = msgspec.json.decode(line)
    for step in range(version, VERSION):
        if step not in UPGRADERS:
            raise Unreadable(_unknown(version))
        fields = UPGRADERS[step](fields)
    return _encoder.encode(fields)


def _refuse_other_format(line: bytes) -> None:
    """Another format's line need not fit our envelope; its version can still be read."""
    try:
        version = _decode_version(line).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if version > VERSION:
        raise WrittenByNewer(version)
    if version < VERSION and version not in UPGRADERS:
        raise Unreadable(_unknown(version))


def _unknown(version: int) -> str:
    return f"it has format {version}, and this version of orchestrator reads {_formats()}"


def _formats() -> str:
    return " and ".join(str(version) for version in (*sorted(UPGRADERS), VERSION))
