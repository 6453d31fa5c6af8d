"""Say what is wrong in a file that a person wrote: one line, with file, line, key and remedy.

Nothing is decided here.  The first mistake by line is told, the rest are counted.
"""

import difflib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.core.errors import Usage

Where = tuple[str | int, ...]
LineOf = Callable[[Where], int | None]

LISTED_MAX = 12
CHARACTERS_MAX = 500

_WANTED: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def at(shown: str, line: int | None, what: str) -> str:
    """``file:line: what``, in the form that editors can jump to: one line, whatever it quotes."""
    told = "".join(c if c.isprintable() else " " for c in what[:CHARACTERS_MAX])
    return f"{shown}:{line}: {told}" if line else f"{shown}: {told}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A tail for a message: the nearest known word; where none is near, all, if they are few."""
    words = sorted(known)
    spelled = {word.lower(): word for word in words}
    begun = [word for word in spelled if len(wrong) > 1 and word.startswith(wrong.lower())]
    near = begun[:1] or difflib.get_close_matches(wrong.lower(), spelled, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{spelled[near[0]]}"?'
    return f"; known: {', '.join(words)}" if 0 < len(words) <= LISTED_MAX else ""


def usage_of(error: ValidationError, root: type[BaseModel], shown: str, line_of: LineOf) -> Usage:
    """The error to raise for what pydantic found in a document of the shape ``root``."""
    details = error.errors()
    # A missing key is told last: it is often the consequence of a misspelled one.
    first = min(details, key=lambda it: (it["type"] == "missing", line_of(it["loc"]) or 0))
    rest = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return Usage(at(shown, line_of(first["loc"]), _told(first, root)) + rest)


def key_name(where: Where) -> str:
    """``agent.models.implement``, ``task[2].id`` (counted from 1, as people do)."""
    name = ""
    for part in where:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += f".{part}" if name else part
    return name


def _told(detail: ErrorDetails, root: type[BaseModel]) -> str:
    where = detail["loc"]
    name = key_name(where)
    match detail["type"]:
        case "extra_forbidden":
            table = key_name(where[:-1])
            place = f" in [{table}]" if table else ""
            return f'unknown key "{where[-1]}"{place}' + did_you_mean(
                str(where[-1]), _keys_at(root, where[:-1])
            )
        case "invalid_key":
            return f"the key {where[-1]} must be a string: quote it"
        case "missing":
            return f"{name} is missing"
        case kind if kind in _WANTED:
            return f"{name} must be {_WANTED[kind]}, not {_kind_of(detail['input'])}"
        case "wrong":
            return f"{name} {detail['msg']}"
        case _:
            return f"{name}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _keys_at(root: type[BaseModel], where: Where) -> Iterable[str]:
    """The keys that the table at ``where`` may hold."""
    at_hand: Any = root
    for part in where:
        if isinstance(at_hand, type) and issubclass(at_hand, BaseModel):
            fields = {field.alias or name: field for name, field in at_hand.model_fields.items()}
            at_hand = _table_type(fields[str(part)].annotation)
        else:
            at_hand = typing.get_args(at_hand)[0]  # of tuple[Table, ...]
    return [field.alias or name for name, field in at_hand.model_fields.items()]


def _table_type(annotation: Any) -> Any:
    """The table in ``Table | None``; anything else as it is."""
    if isinstance(annotation, types.UnionType):
        return next(part for part in typing.get_args(annotation) if part is not type(None))
    return annotation


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"
