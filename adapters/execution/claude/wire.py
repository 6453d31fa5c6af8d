"""What a line of the client's output holds, whatever it holds.

Every function returns something usable for every input; none raises.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.core.model import USD_MAX

_STARTS_MAX = 8
"""How many places in a line with noise are tried as the start of its object."""

COUNT_MAX = 10**12
"""Of tokens: more than any session has."""
MESSAGE_TOKENS_MAX = 10**8
"""More than any model reads or says at once."""
_EPOCH_MS_MIN = 1e12
"""As milliseconds it is in the year 2001, as seconds in one that nobody means."""
_SHARE_MAX = 1.1
"""A window may be used a little beyond its end.  What is more is a percentage."""

_ITEMS_MAX = 10_000
"""Of an array in one line, the last ones: its end says what came of it."""
_decoder = json.JSONDecoder()
_PADDING = b"\x00 \t\r\n"


def objects(line: bytes) -> tuple[dict[str, Any], ...]:
    """The JSON objects of a line: one, the items of an array, or what follows some noise."""
    line = line.strip(_PADDING)
    if not line:
        return ()
    if line[:1] in b"{[":
        try:
            value = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            pass
        else:
            return _dicts(value)
    return _after_noise(line)


def _after_noise(line: bytes) -> tuple[dict[str, Any], ...]:
    """Objects that reach the end of the line: a torn line's inner objects do not."""
    if b'"' not in line:
        return ()  # nor has it any key
    text = line.decode("utf-8", errors="replace")
    found: list[Any] = []
    position = 0
    for _ in range(_STARTS_MAX):
        position = text.find("{", position)
        if position < 0:
            return ()
        try:
            value, end = _decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        found.append(value)
        if not text[end:].strip("\x00 \t"):
            return _dicts(_storable(found))
        position = end
    return ()


def _storable(value: Any) -> Any:
    """Without lone surrogates, which no UTF-8 file can hold."""
    try:
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _dicts(value: Any) -> tuple[dict[str, Any], ...]:
    items = value[-_ITEMS_MAX:] if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, dict))


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: Any, chars_max: int = 2000) -> str:
    return value[:chars_max] if isinstance(value, str) else ""


def texts(value: Any, items_max: int = 10) -> tuple[str, ...]:
    items = value[:items_max] if isinstance(value, list) else ()
    return tuple(text(item) for item in items if isinstance(item, str))


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: Any, most: int = COUNT_MAX) -> int:
    """A whole number from 0; 0 for anything else, and for what cannot be."""
    found = number(value)
    return int(found) if found is not None and 0 < found <= most else 0


def usd(value: Any) -> float | None:
    """What something cost; None for what nothing can have cost."""
    found = number(value)
    return found if found is not None and 0 <= found <= USD_MAX else None


def name(value: Any, chars_max: int = 100) -> str:
    """Of a model, a window, a tool: on one line, and nothing in it but what can be printed."""
    return one_line(value, chars_max) if isinstance(value, str) else ""


def moment(value: Any) -> float | None:
    """Epoch seconds, of seconds or of milliseconds.  Whether it can be meant is not looked at."""
    found = number(value)
    if found is None or found <= 0:
        return None
    return found if found < _EPOCH_MS_MIN else found / 1000.0


def share(value: Any) -> float | None:
    """0 to a little above 1, of a share or of a percentage; None for what can be neither."""
    found = number(value)
    if found is None or not 0 <= found <= 100 * _SHARE_MAX:
        return None
    return found if found <= _SHARE_MAX else found / 100.0


def one_line(value: str, chars_max: int = 300) -> str:
    """Printable, on one line, bounded."""
    line = " ".join("".join(c if c.isprintable() else " " for c in value[: 4 * chars_max]).split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"
