"""What a look at a repository finds, and how its files are read: whatever is in them, no error."""

from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.core.settings import Commands
from orchestrator.given_file import DATA_BYTES_MAX, read_given


class Seen(NamedTuple):
    language: str
    because: str
    """The file that says so."""
    commands: Commands


def first_of(root: Path, *names: str) -> str | None:
    return next((name for name in names if (root / name).exists()), None)


def text_of(path: Path) -> str:
    try:
        return read_given(path, DATA_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def table_in(value: Any, *keys: str) -> dict[str, Any]:
    """The table that the keys lead to; an empty one where something else is in the way."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
