"""As much of JSON Schema as the outputs of stages use, with the client's words for a misfit."""

from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def misfit(value: Any, schema: dict[str, Any], where: str = "root") -> str | None:
    """Why the value does not fit; None: it does."""
    types = schema.get("type")
    wanted = [types] if isinstance(types, str) else types or []
    if wanted and not any(_is(value, name) for name in wanted):
        return f"{where}: must be {','.join(wanted)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: must be equal to one of the allowed values"
    if isinstance(value, dict):
        return _object_misfit(value, schema, where)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(value):
            found = misfit(item, schema["items"], f"{where}/{number}")
            if found:
                return found
    return None


def smallest(schema: dict[str, Any]) -> Any:
    """A value that fits, for a stage nobody wrote an output for."""
    if "enum" in schema:
        return schema["enum"][0]
    types = schema.get("type", "object")
    match types if isinstance(types, str) else types[0]:
        case "object":
            properties = schema.get("properties", {})
            return {name: smallest(properties.get(name, {})) for name in schema.get("required", ())}
        case "array":
            return []
        case "string":
            return ""
        case "boolean":
            return True
        case "integer" | "number":
            return 0
        case _:
            return None


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, object))


def _object_misfit(value: dict[str, Any], schema: dict[str, Any], where: str) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where}: must have required property '{name}'"
    for name, item in value.items():
        if name in properties:
            found = misfit(item, properties[name], f"{where}/{name}")
            if found:
                return found
        elif schema.get("additionalProperties") is False:
            return f"{where}: must NOT have additional properties"
    return None
