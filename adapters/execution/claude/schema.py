"""As much of JSON Schema as the stages' outputs use: a value fits, or this is why not."""

from collections.abc import Iterator, Mapping
from typing import Any

from adapters.execution.claude.wire import mapping, one_line

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """The first thing wrong with it, with its place; "" where it fits."""
    try:
        return next(_misfits(value, schema, "output"), "")
    except RecursionError:
        return "output is nested too deeply"


def _misfits(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted or []
    if names and not any(_is(value, name) for name in names):
        yield f"{where} must be {' or '.join(names)}, not {_name(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(map(str, schema["enum"]))
        yield f"{where} must be one of {allowed}, not {one_line(str(value), 50)}"
    if isinstance(value, dict):
        yield from _object_misfits(value, schema, where)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _misfits(item, items, f"{where}[{index}]")


def _object_misfits(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    properties = mapping(schema.get("properties"))
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name} is missing"
    for name, item in value.items():
        if name in properties:
            yield from _misfits(item, properties[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{where}.{one_line(name, 50)} is not asked for"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, (object,)))


def _name(value: Any) -> str:
    return next((name for name in _TYPES if _is(value, name)), "something else")
