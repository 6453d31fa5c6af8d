"""Read a TOML, JSON or YAML file into plain values, and know on which line each of them stands.

The three look alike to whoever reads on.  A key that stands twice is a mistake in each of them:
JSON and YAML would silently take the last.
"""

import json
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from adapters.project.mistakes import LineOf, Where, at
from adapters.project.text import parse_toml, read_text
from adapters.project.toml_lines import nearest_line, toml_positions
from orchestrator.core.errors import Usage
from orchestrator.given_file import DATA_BYTES_MAX

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    values: Any
    line_of: LineOf
    """Looks only when asked: positions cost more than values."""


def read_document(path: Path, shown: str) -> Document:
    """Raises Usage.  The ending of the name says which of the three it is."""
    text = read_text(path, shown, DATA_BYTES_MAX)
    match path.suffix.lower():
        case ".toml":
            return Document(parse_toml(text, shown), toml_positions(text))
        case ".json":
            return Document(_json(text, shown), _yaml_positions(text))
        case ".yaml" | ".yml":
            return Document(_yaml(text, shown), _yaml_positions(text))
        case ending:
            raise Usage(f'{shown}: a task file is .toml, .json, .yaml or .yml, not "{ending}"')


def _json(text: str, shown: str) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _StandsTwice(key)
            found[key] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}".removesuffix(" at")
        raise Usage(at(shown, error.lineno, f"not valid JSON: {what}")) from error
    except _StandsTwice as error:
        raise Usage(at(shown, _line_of_second(text, error.key), str(error))) from error
    except RecursionError as error:
        raise Usage(at(shown, None, "nested too deeply")) from error


def _yaml(text: str, shown: str) -> Any:
    try:
        root = yaml.compose(text, Loader=_Loader)
        for _, _, second in _walk(root):
            if second is not None:
                raise Usage(at(shown, second.start_mark.line + 1, str(_StandsTwice(second.value))))
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise Usage(at(shown, line, f"not valid YAML: {error.problem}")) from error
    except yaml.YAMLError as error:
        raise Usage(at(shown, None, f"not valid YAML: {' '.join(str(error).split())}")) from error
    except (RecursionError, ValueError, TypeError) as error:
        raise Usage(at(shown, None, f"not valid YAML: {error}")) from error


class _StandsTwice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(f'the key "{key}" stands twice')
        self.key = key


def _yaml_positions(text: str) -> LineOf:
    lines = cache(lambda: {path: line for path, line, _ in _walk(_as_yaml(text))})
    return lambda where: nearest_line(lines(), where)


def _line_of_second(text: str, key: str) -> int | None:
    found = (again for _, _, again in _walk(_as_yaml(text)) if again and again.value == key)
    second = next(found, None)
    return second.start_mark.line + 1 if second else None


def _as_yaml(text: str) -> yaml.Node | None:
    """JSON too: but for rare characters, which leave it without positions, it is YAML."""
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return None


def _walk(root: yaml.Node | None) -> Iterator[tuple[Where, int, yaml.ScalarNode | None]]:
    """Each path, its line, and the key's node where the same key has stood before it.

    A node that aliases lead to is looked at once, so that no knot of them is endless.
    """
    visited: set[int] = set()
    to_visit: list[tuple[Where, yaml.Node | None]] = [((), root)]
    while to_visit:
        path, node = to_visit.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[Hashable] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    again = key if key.value in seen else None
                    seen.add(key.value)
                    yield (*path, key.value), key.start_mark.line + 1, again
                    to_visit.append(((*path, key.value), value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield (*path, index), value.start_mark.line + 1, None
                to_visit.append(((*path, index), value))
