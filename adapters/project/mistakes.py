"""Say what is wrong in a file that a person wrote: one line, with file, line, key and remedy.

Nothing is decided here.  The first mistake by line is told in full, the rest are counted.
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

_WANTED: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def at(shown: str, line: int | None, what: str) -> str:
    """``file:line: what``, in the form that editors can jump to."""
    return f"{shown}:{line}: {what}" if line else f"{shown}: {what}"


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A tail for a message: the nearest known word, or all of them where none is near."""
    words = sorted(known)
    spelled = {word.lower(): word for word in words}
    if near := difflib.get_close_matches(wrong.lower(), spelled, n=1, cutoff=0.6):
        return f'; did you mean "{spelled[near[0]]}"?'
    return f"; known: {', '.join(words)}" if words else ""


def usage_of(error: ValidationError, root: type[BaseModel], shown: str, line_of: LineOf) -> Usage:
    """The error to raise for what pydantic found in a document of the shape ``root``."""
    found = [(line_of(detail["loc"]), _told(detail, root)) for detail in error.errors()]
    found.sort(key=lambda mistake: mistake[0] or 0)
    line, what = found[0]
    rest = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Usage(at(shown, line, what) + rest)


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
            at_hand = _table_type(typing.get_args(at_hand)[-1])
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
