"""Runs in their root: made whole or not at all, found by id alone."""

from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentFault, Refused, Usage
from orchestrator.core.model import Stage
from orchestrator.journal.read import read_entries
from orchestrator.journal.store import RunRoot, RunStore
from tests.unit.journal.events import NOW, begun


def make(root: RunRoot, run_id: str, project: str = "sample") -> RunStore:
    return root.create(project, run_id, "2026-11-29", first=begun(), now=NOW)


def everything_in(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if not p.name.endswith(".lock")}


def test_a_run_is_in_its_place_with_its_first_events(tmp_path: Path) -> None:
    store = make(RunRoot(tmp_path), "r1")
    assert store.path == tmp_path / "sample" / "2026-11-29" / "r1"
    assert store.run_id == "r1"
    assert [e.event for e in read_entries(store.events_path)] == begun()
    assert everything_in(store.path) == {"events.jsonl", "stages"}
    assert RunRoot(tmp_path).find("r1") == store


def test_a_pinned_root_holds_runs_directly(tmp_path: Path) -> None:
    store = make(RunRoot(tmp_path, pinned=True), "r1")
    assert store.path == tmp_path / "r1"
    assert RunRoot(tmp_path, pinned=True).find("r1") == store


def test_an_id_is_unique_in_the_root_whatever_the_project(tmp_path: Path) -> None:
    root = RunRoot(tmp_path)
    make(root, "r1")
    before = everything_in(tmp_path)
    with pytest.raises(Refused, match=r"run r1 is there already, at .*sample"):
        make(root, "r1")
    with pytest.raises(Refused):
        make(root, "r1", project="other")
    assert everything_in(tmp_path) - before <= {"other", "other/2026-11-29"}


@pytest.mark.parametrize("name", ["", "a b", "../x", ".x", "a/b", "x.lock", "a..b", "x.", "y" * 65])
def test_a_name_that_is_no_directory_or_branch_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Usage, match="letters, digits"):
        make(RunRoot(tmp_path), name)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_run_is_refused_with_the_nearest(tmp_path: Path) -> None:
    root = RunRoot(tmp_path)
    with pytest.raises(Refused, match=r"no run 'x' under .*there are none"):
        root.find("x")
    make(root, "nightly-41")
    make(root, "other")
    with pytest.raises(Refused, match=r"'nightly-14' under .*: there are nightly-41$"):
        root.find("nightly-14")
    with pytest.raises(Refused):
        root.find("../2026-11-29/other")


def test_a_half_made_run_is_not_there(tmp_path: Path) -> None:
    root = RunRoot(tmp_path)
    make(root, "r1")
    day = tmp_path / "sample" / "2026-11-29"
    (day / ".r2.new-1").mkdir()
    (day / "r3").mkdir()
    assert [store.run_id for store in root.runs()] == ["r1"]
    with pytest.raises(Refused):
        root.find("r3")


def test_a_run_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "sample").write_text("a file where a directory belongs")
    with pytest.raises(EnvironmentFault, match="cannot be made"):
        make(RunRoot(tmp_path), "r1")


def test_dispatches_have_names_of_their_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "r1")
    assert store.stem("t1", Stage.TEST, 2, 1) == tmp_path / "r1/stages/t1/test-attempt2"
    assert store.stem("t1", Stage.TEST, 2, 3) == tmp_path / "r1/stages/t1/test-attempt2.d3"
    assert store.record_path("t1", 4, Stage.TEST).name == "04-test.json"
