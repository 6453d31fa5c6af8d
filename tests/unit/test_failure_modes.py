"""docs/failure-modes.md: every test that it names is there, and every fault is played by one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from adapters.execution.rehearsal.faults import KINDS
from adapters.execution.rehearsal.throwaway import NAMED, find_scenario
from tests.e2e import test_failure_modes as played

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "failure-modes.md"
HELD_BY = re.compile(r"`(test_\w+\.py)(?:::(\w+)(?:\[([\w-]+)\])?)?`")
NAMES = sorted(set(HELD_BY.findall(DOCUMENT.read_text())))
GROUPS = {**played.PASSES, **played.FINE, **played.SPENDS, **played.PAUSES, **played.STALLS}


@cache
def functions(file: str) -> frozenset[str]:
    found = list((ROOT / "tests").rglob(file))
    assert found, f"{file} is not there"
    trees = [ast.parse(path.read_text()) for path in found]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(n.name for tree in trees for n in ast.walk(tree) if isinstance(n, kinds))


@pytest.mark.parametrize(("file", "function", "case"), NAMES, ids=lambda part: part or "all")
def test_a_test_that_is_named_is_there(file: str, function: str, case: str) -> None:
    assert not function or function in functions(file)
    assert not case or case in GROUPS


def named_sources() -> str:
    """Of the tests of the batches that the document names, with what they are played with."""
    text = Path(played.__file__).read_text()
    named = {function for _, function, _ in NAMES}
    return "\n".join(
        ast.unparse(node)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name in named
    )


def test_every_kind_that_is_played_is_in_the_table() -> None:
    cases, sources = {case for _, _, case in NAMES}, named_sources()
    untold = [kind for kind in GROUPS if kind not in cases]
    assert [kind for kind in untold if not re.search(rf"['=]{kind}'", sources)] == []


@pytest.mark.parametrize("fault", KINDS)
def test_every_fault_is_played_in_a_batch(fault: str) -> None:
    text = Path(played.__file__).read_text()
    assert f'"{fault}"' in text


def test_the_named_scenarios_can_be_played() -> None:
    names = [path.stem for path in NAMED.glob("*.toml")]
    assert sorted(names) == ["calm", "crashes", "flaky", "hostile", "limits"]
    assert all(find_scenario(name).is_file() for name in names)
