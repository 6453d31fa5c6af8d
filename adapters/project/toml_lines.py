"""Find the line on which each key and value of a TOML text stands.

tomllib gives values without positions.  This reads a text that tomllib has accepted a second
time, for positions alone, and only once there is something to report.  Its one invariant: it
moves forward, so that it ends whatever it is given.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache

Path = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_SPACES = re.compile(r"[ \t]+")
_REST_OF_LINE = re.compile(r"[^\n]*")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of every table, key and array element, by its path in the document."""
    lines: dict[Path, int] = {}
    for path, line in _Scanner(text).document():
        for length in range(1, len(path) + 1):
            lines.setdefault(path[:length], line)
    return lines


def toml_positions(text: str) -> Callable[[Path], int | None]:
    """Tells the nearest line of a path; the text is looked through once, when first asked."""
    lines = cache(lambda: lines_of(text))
    return lambda path: nearest_line(lines(), path)


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """The line of ``path``, or of the closest thing around it that has one."""
    for length in range(len(path), 0, -1):
        if line := lines.get(path[:length]):
            return line
    return None


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._counted_at = 0
        self._line = 1
        self._elements: dict[Path, int] = {}

    def document(self) -> Iterator[tuple[Path, int]]:
        table: Path = ()
        while self._skip(_BLANK) or self._at < len(self._text):
            line, before = self._line_now(), self._at
            if self._skip_text("[["):
                table = self._next_element(self._key())
                yield table, line
                self._skip(_REST_OF_LINE)
            elif self._skip_text("["):
                table = self._inside(self._key())
                yield table, line
                self._skip(_REST_OF_LINE)
            else:
                yield from self._pair(table)
            self._at = max(self._at, before + 1)

    def _inside(self, path: Path) -> Path:
        """Where a header's names lead: through an array of tables, to its last element."""
        found: Path = ()
        for name in path:
            found = (*found, name)
            if found in self._elements:
                found = (*found, self._elements[found])
        return found

    def _next_element(self, path: Path) -> Path:
        array = (*self._inside(path[:-1]), path[-1]) if path else path
        self._elements[array] = self._elements.get(array, -1) + 1
        return (*array, self._elements[array])

    def _pair(self, table: Path) -> Iterator[tuple[Path, int]]:
        line = self._line_now()
        names = self._key()
        path = (*table, *names)
        yield path, line
        self._skip(_SPACES)
        if self._skip_text("="):
            self._skip(_SPACES)
            yield from self._value(path)

    def _value(self, path: Path) -> Iterator[tuple[Path, int]]:
        if self._skip_text("["):
            yield from self._array(path)
        elif self._skip_text("{"):
            yield from self._inline_table(path)
        elif not self._skip(_STRING):
            self._skip(_SCALAR)

    def _array(self, path: Path) -> Iterator[tuple[Path, int]]:
        index = 0
        while self._item_follows("]"):
            start = self._at
            yield (*path, index), self._line_now()
            yield from self._value((*path, index))
            index += 1
            if self._at == start:
                return

    def _inline_table(self, path: Path) -> Iterator[tuple[Path, int]]:
        while self._item_follows("}"):
            start = self._at
            yield from self._pair(path)
            if self._at == start:
                return

    def _item_follows(self, closing: str) -> bool:
        self._skip(_BLANK)
        self._skip_text(",")
        self._skip(_BLANK)
        return not self._skip_text(closing)

    def _key(self) -> Path:
        names: list[str] = []
        while True:
            self._skip(_SPACES)
            start = self._at
            if self._skip(_BARE_KEY):
                names.append(self._text[start : self._at])
            elif self._skip(_STRING):
                names.append(_unquoted(self._text[start : self._at]))
            self._skip(_SPACES)
            if not self._skip_text("."):
                return tuple(names)

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        if (match := pattern.match(self._text, self._at)) is None:
            return False
        self._at = match.end()
        return True

    def _skip_text(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _line_now(self) -> int:
        self._line += self._text.count("\n", self._counted_at, self._at)
        self._counted_at = self._at
        return self._line


def _unquoted(quoted: str) -> str:
    if quoted.startswith("'"):
        return quoted[1:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), quoted[1:-1])
