"""House rules no off-the-shelf linter checks.  The source tree is the input."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULE_LINES_MAX = 350
FUNCTION_LINES_MAX = 60
VAGUE_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "manager", "engine", "shared"}
HISTORY = re.compile(
    r"(?<![\w&/`'\"])#\d+\b|\b(used to be|not any ?more|previously|formerly|legacy|"
    r"phase \d|was changed|back-?compat)\b",
    re.IGNORECASE,
)

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

MODULES = sorted(
    path
    for top in ("orchestrator", "drivers", "adapters")
    for path in (ROOT / top).rglob("*.py")
    if "sample" not in path.parts  # the demo's repository is data
)


def violations(name: str, text: str) -> Iterator[str]:
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield f"{name}: {lines} lines, at most {MODULE_LINES_MAX}"
    if Path(name).stem in VAGUE_NAMES:
        yield f"{name}: '{Path(name).stem}' says nothing about what is inside"
    if tree.body and not ast.get_docstring(tree):
        yield f"{name}: no docstring says what the module does"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines"
    for number, prose in prose_of(text, tree):
        if found := HISTORY.search(prose):
            yield f"{name}:{number}: history in prose: {found.group()!r}"


def prose_of(text: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string[1:]
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tidy(path: Path) -> None:
    assert list(violations(str(path.relative_to(ROOT)), path.read_text())) == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""D."""\n' + "x = 1\n" * 350, "a.py: 351 lines"),
        ("utils.py", '"""D."""\n', "utils.py: 'utils' says nothing"),
        ("a.py", "x = 1\n", "a.py: no docstring"),
        ("a.py", '"""D."""\ndef f():\n' + "    x = 1\n" * 60, "a.py:2: f has 61 lines"),
        ("a.py", '"""D."""\nx = 1  # see #12\n', "a.py:2: history in prose: '#12'"),
        ("a.py", '"""It previously waited."""\n', "a.py:1: history in prose: 'previously'"),
    ],
)
def test_each_rule_finds_what_it_is_for(name: str, text: str, found: str) -> None:
    assert [said for said in violations(name, text) if said.startswith(found)]


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 50
