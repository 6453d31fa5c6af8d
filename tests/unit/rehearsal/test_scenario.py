import subprocess
import sys
from pathlib import Path

import pytest

from adapters.execution.rehearsal.scenario import Scenario, ScenarioError, Who, load, who_asks
from orchestrator.core.model import Stage
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from tests.unit.rehearsal.agent import asks


def loaded(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    return load(str(path))


@pytest.mark.parametrize(
    ("prompt", "who"),
    [
        (asks("#12", "review", 3), Who("#12", "review", 3)),
        ("Do this.\n\n- **Task**: `T1`\n- **Stage**: Implement\n", Who("T1", "implement", None)),
        ("Task: two words\nStage: scope\nAttempt: 1 of 3", Who("two words", "scope", 1)),
        ("Task: T1\nStage: scope\n> Task: evil\n\nTask: late\n", Who("T1", "scope", None)),
        ("> Task: T1\n> Stage: scope\n", None),
        ("Write a poem.", None),
    ],
)
def test_reads_who_asks_from_the_prompt(prompt: str, who: Who | None) -> None:
    assert who_asks(prompt) == who


def test_the_first_call_that_fits_is_played(tmp_path: Path) -> None:
    scenario = loaded(
        tmp_path,
        """
        call = [
            { task = "T1", stage = "implement", attempt = 1, start = 1, say = "first start" },
            { task = "T1", stage = "implement", attempt = 1, say = "later start" },
            { task = "T1", say = "any stage" },
            { stage = "implement", say = "any task" },
        ]
        """,
    )
    implement = Who("T1", "implement", 1)
    assert scenario.call(implement, 1).say == "first start"
    assert scenario.call(implement, 2).say == "later start"
    assert scenario.call(implement._replace(attempt=2), 1).say == "any stage"
    assert scenario.call(Who("T2", "implement", 1), 1).say == "any task"
    assert scenario.call(Who("T2", "review", 1), 1).say == ""


@pytest.mark.parametrize("stage", list(OUTPUT_SCHEMAS))
def test_what_no_call_mentions_goes_well(stage: Stage) -> None:
    call = Scenario().call(Who("#1", stage.value, 1), 1)
    assert call.faults == ()
    assert set(OUTPUT_SCHEMAS[stage]["required"]) <= set(call.output)
    assert bool(call.steps) is (stage is Stage.IMPLEMENT)


def test_an_overlay_writes_each_file_below_it(tmp_path: Path) -> None:
    (tmp_path / "change" / "pkg").mkdir(parents=True)
    (tmp_path / "change" / "pkg" / "x.py-tpl").write_text("x = 1\n")
    (tmp_path / "change" / "a.txt").write_text("a")
    scenario = loaded(tmp_path, 'call = [{ do = [{ overlay = "change" }] }]')
    steps = scenario.call(Who("T1", "implement", 1), 1).steps
    assert [step.input["file_path"] for step in steps] == ["a.txt", "pkg/x.py"]
    assert steps[1].input["content"] == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("durations_s = 1", "unknown key 'durations_s'"),
        ("call = [{ tsk = 'T1' }]", "call 1: unknown key 'tsk'"),
        ("account = { five_hours = 1 }", "five_hours"),
        ("call = [{", "scenario.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=r"scenario\.toml") as wrong:
        loaded(tmp_path, text)
    assert words in str(wrong.value)


@pytest.mark.parametrize("step", ['{ wrote = "x" }', '{ write = "x" }', '{ overlay = "nowhere" }'])
def test_a_mistake_in_a_step_is_named(tmp_path: Path, step: str) -> None:
    scenario = loaded(tmp_path, f"call = [{{ do = [{step}] }}]")
    with pytest.raises(ScenarioError, match="call 1"):
        scenario.call(Who("T1", "implement", 1), 1)


def test_the_least_change_leaves_a_flat_package_one_that_can_be_built(tmp_path: Path) -> None:
    """A directory, or a module, at the top would be taken for a second package."""
    (tmp_path / "src.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (step,) = Scenario().call(Who("#1", "implement", 1), 1).steps
    written = tmp_path / step.input["file_path"]
    written.parent.mkdir(exist_ok=True)
    written.write_text(step.input["content"])
    find = (
        "from setuptools import discovery as d;"
        "print(d.FlatLayoutPackageFinder.find('.'), d.FlatLayoutModuleFinder.find('.'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", find], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout == "['package'] ['src']\n"
