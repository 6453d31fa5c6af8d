"""docs/failure-modes.md: every test that it names is there, and every fault is played by one."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from adapters.execution.rehearsal.faults import KINDS
from adapters.execution.rehearsal.throwaway import NAMED, find_scenario
from tests.e2e import test_failure_modes as played

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "failure-modes.md"
HELD_BY = re.compile(r"`(test_\w+\.py)(?:::(\w+)(?:\[([\w-]+)\])?)?`")
ROW = re.compile(r"^\| (?!kind |---).*\| (.*) \|$", re.MULTILINE)
NAMES = sorted(set(HELD_BY.findall(DOCUMENT.read_text())))
GROUPS: Mapping[str, Mapping[str, object]] = {
    played.test_is_tried_again_and_spends_no_attempt.__name__: played.PASSES,
    played.test_a_session_that_cannot_go_on_hands_over.__name__: played.PASSES,
    played.test_the_result_is_taken_at_its_word.__name__: played.FINE,
    played.test_spends_an_attempt_and_says_why.__name__: played.SPENDS,
    played.test_pauses_the_run_and_spends_nothing.__name__: played.PAUSES,
    played.test_what_hangs_is_stopped_and_what_is_slow_is_not.__name__: played.STALLS,
}
"""The tests that have cases, and what each is played with."""


@cache
def functions(file: str) -> frozenset[str]:
    found = list((ROOT / "tests").rglob(file))
    assert found, f"{file} is not there"
    trees = [ast.parse(path.read_text()) for path in found]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(n.name for tree in trees for n in ast.walk(tree) if isinstance(n, kinds))


@pytest.mark.parametrize(("file", "function", "case"), NAMES, ids=lambda part: part or "all")
def test_a_test_that_is_named_is_there(file: str, function: str, case: str) -> None:
    assert function, f"{file} holds many things: name the function"
    assert function in functions(file)
    if case or (file == Path(played.__file__).name and function in GROUPS):
        assert case in cases_of(function)


def cases_of(function: str) -> frozenset[str]:
    """Those that the function itself is given: by its own list of names, or all of its group."""
    (node,) = [
        node
        for node in ast.parse(Path(played.__file__).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    group = GROUPS[function]
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.args[-1], ast.List):
            return frozenset(ast.literal_eval(mark.args[-1])) & group.keys()
    return frozenset(group)


def test_every_row_but_those_that_do_not_apply_is_held_by_a_test() -> None:
    told, _, _ = DOCUMENT.read_text().partition("## What does not apply")
    rows = ROW.findall(told)
    assert len(rows) > 50
    assert [row for row in rows if not HELD_BY.search(row)] == []


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
    kinds = {kind for group in GROUPS.values() for kind in group}
    untold = [kind for kind in kinds if kind not in cases]
    assert [kind for kind in untold if not re.search(rf"['=]{kind}'", sources)] == []


@pytest.mark.parametrize("fault", KINDS)
def test_every_fault_is_played_in_a_batch(fault: str) -> None:
    text = Path(played.__file__).read_text()
    assert f'"{fault}"' in text


def test_the_named_scenarios_can_be_played() -> None:
    names = [path.stem for path in NAMED.glob("*.toml")]
    assert sorted(names) == ["calm", "costly", "crashes", "flaky", "hostile", "idle", "limits"]
    assert all(find_scenario(name).is_file() for name in names)
