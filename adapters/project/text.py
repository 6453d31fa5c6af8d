"""Read a text that a person wrote; whatever is wrong with it names its file and line."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from adapters.project.mistakes import at
from orchestrator.core.errors import Usage
from orchestrator.given_file import WRITTEN_BYTES_MAX, read_given

_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def shown_path(path: Path) -> str:
    """The path as a person who stands in the working directory would write it."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)


def read_text(path: Path, shown: str, bytes_max: int = WRITTEN_BYTES_MAX) -> str:
    try:
        data = read_given(path, bytes_max)
    except OSError as error:
        raise Usage(f"{shown}: {why_not(error)}") from error
    except ValueError as error:  # a NUL byte in its name
        raise Usage(f"{shown!r} names no file") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Usage(at(shown, line, "not UTF-8 text")) from error


def why_not(error: OSError) -> str:
    said = error.strerror or str(error)
    return said[:1].lower() + said[1:]


def parse_toml(text: str, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what = str(error)
        position = _POSITION.search(what)
        line = int(position[1]) if position and position[1] else text.count("\n") + 1
        reason = _POSITION.sub("", what)
        raise Usage(at(shown, line, f"not valid TOML: {reason[:1].lower()}{reason[1:]}")) from error
    except RecursionError as error:
        raise Usage(at(shown, None, "nested too deeply")) from error
