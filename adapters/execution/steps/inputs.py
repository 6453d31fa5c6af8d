"""What a step is told, read from the JSON on its standard input.

Invariant: a missing or misshapen field is named; nothing else is trusted to be there.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.core.errors import Usage


class Dependency(NamedTuple):
    task_id: str
    branch: str
    commit: str


class Inputs:
    """The fields, each with its type, read when asked for."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @classmethod
    def parse(cls, text: str | bytes) -> "Inputs":
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Usage(f"the inputs of this step are not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise Usage("the inputs of this step are not a JSON object")
        return cls(fields)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name, default)
        if not isinstance(value, str):
            raise Usage(f"the inputs of this step lack {name!r} (a string)")
        return value

    def argv(self, name: str) -> list[str]:
        """A command; empty where there is none."""
        value = self._fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise Usage(f"{name!r} in the inputs of this step is not a list of strings")
        return value

    def number(self, name: str, default: float) -> float:
        value = self._fields.get(name, default)
        if not isinstance(value, int | float):
            raise Usage(f"{name!r} in the inputs of this step is not a number")
        return float(value)

    def values(self, name: str) -> dict[str, str]:
        value = self._fields.get(name) or {}
        if not isinstance(value, dict):
            raise Usage(f"{name!r} in the inputs of this step is not an object")
        return {str(key): str(item) for key, item in value.items()}

    def dependencies(self) -> list[Dependency]:
        value = self._fields.get("dependencies") or []
        try:
            return [Dependency(d["task_id"], d["branch"], d.get("commit") or "") for d in value]
        except (TypeError, KeyError, AttributeError) as error:
            raise Usage(
                "'dependencies' in the inputs of this step lacks a task_id or a branch"
            ) from error
