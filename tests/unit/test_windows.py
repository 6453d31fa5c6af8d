"""Usage windows: what they leave of the limit, for whom, and until when."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from orchestrator.core.capacity import capacity
from orchestrator.core.events import WindowObserved
from orchestrator.core.model import Pipeline, Stage, TaskId, Window
from orchestrator.core.plan import plan
from orchestrator.core.settings import Settings
from orchestrator.core.windows import bar_of_model, ends_at, fullest, limit_at, model_in
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run

HOUR_S = 3600.0
ROOT = Path(__file__).parents[2]


def window(name: str, share: float | None, *, ends_s: float = HOUR_S, **more: Any) -> Window:
    return Window(name=name, utilization=share, resets_at=NOW + ends_s, observed_at=NOW, **more)


def run_with(*windows: Window, **settings: Any) -> Run:
    run = Run(*(task(name) for name in "abcd"), settings=Settings(**settings))
    run.add(WindowObserved(windows=windows))
    return run


def limits(run: Run, most: int, **more: Any) -> tuple[int, str, int]:
    found = capacity(run.state, NOW, max_concurrent=most, **more)
    return found.limit, found.limited_by, found.in_all.limit


def test_the_curve_as_it_is_documented() -> None:
    settings = Settings()
    shares = (0.0, 0.6, 0.7, 0.75, 0.8, 0.85, 0.89, 0.9, 0.95, 1.0)
    assert [limit_at(share, 4, settings) for share in shares] == [4, 4, 4, 3, 2, 1, 1, 0, 0, 0]
    assert [limit_at(share, 1, settings) for share in shares] == [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]


def test_the_table_in_the_documentation() -> None:
    text = (ROOT / "docs" / "limits.md").read_text()
    rows = re.findall(r"^\| (?:up to )?(\d+) %[^|]*\| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert len(rows) == 5
    for percent, *said in rows:
        found = [limit_at(int(percent) / 100, most, Settings()) for most in (3, 4, 8)]
        assert found == list(map(int, said)), f"{percent} %"


@given(
    st.floats(0, 1.2), st.floats(0, 1.2), st.integers(1, 50), st.floats(0, 0.95), st.floats(0, 1)
)
def test_the_limit_only_falls_and_the_headroom_is_kept(
    one: float, other: float, most: int, headroom: float, easy: float
) -> None:
    settings = Settings(headroom_share=headroom, window_easy_share=easy)
    less, more = sorted((one, other))
    assert most >= limit_at(less, most, settings) >= limit_at(more, most, settings) >= 0
    assert (limit_at(more, most, settings) == 0) == (more >= 1.0 - headroom)


def test_the_fullest_window_that_all_share_sets_the_limit() -> None:
    run = run_with(
        window("five_hour", 0.8), window("seven_day", 0.3), window("seven_day_opus", 0.99)
    )
    assert limits(run, 4) == (2, "usage_window:five_hour", 4)


def test_a_full_window_ends_at_its_reset() -> None:
    run = run_with(window("five_hour", 0.95))
    found = capacity(run.state, NOW, max_concurrent=3)
    assert (found.limit, found.wake_at, found.utilization) == (0, NOW + HOUR_S, 0.95)
    assert capacity(run.state, NOW + HOUR_S, max_concurrent=3).limit == 3


def test_a_rejected_window_bars_whatever_its_utilization() -> None:
    run = run_with(window("seven_day", 0.2, status="rejected"))
    assert limits(run, 3) == (0, "usage_window:seven_day", 3)
    assert limits(run, 3, utilization=0.1) == (0, "usage_window:seven_day", 3)


def test_a_percentage_by_hand_goes_before_what_the_windows_say() -> None:
    run = run_with(window("five_hour", 0.95))
    assert limits(run, 3, utilization=0.1)[0] == 3
    assert limits(run, 4, utilization=0.8)[:2] == (2, "util")


def test_what_is_paid_beyond_a_window_is_off_unless_it_is_allowed() -> None:
    paying = window("five_hour", 1.0, overage=True)
    assert limits(run_with(paying), 3)[0] == 0
    assert limits(run_with(paying, allow_overage=True), 3)[0] == 3
    refused = window("five_hour", 1.0, status="rejected")
    assert limits(run_with(refused, allow_overage=True), 3)[0] == 0


def test_how_full_the_paid_part_is_limits_nothing() -> None:
    assert limits(run_with(window("overage", 0.97)), 3)[0] == 3
    assert model_in("seven_day_overage_included") == ""


def test_without_a_subscription_there_is_no_window() -> None:
    run = Run(task("a"))
    assert fullest(run.state, NOW) == (None, "", None)
    assert capacity(run.state, NOW, max_concurrent=3).utilization is None


def test_a_window_without_a_reset_is_not_believed_for_ever() -> None:
    run = run_with(Window(name="five_hour", utilization=0.99, observed_at=NOW))
    assert capacity(run.state, NOW + 4 * HOUR_S, max_concurrent=3).limit == 0
    assert capacity(run.state, NOW + 5 * HOUR_S, max_concurrent=3).limit == 3


@pytest.mark.parametrize(
    ("model", "bars"),
    [("opus", True), ("claude-opus-4-8", True), ("sonnet", False), ("claude-sonnet-5", False)],
)
def test_a_window_of_one_model_bars_that_model_alone(model: str, *, bars: bool) -> None:
    run = run_with(window("seven_day_opus", 0.93))
    found = bar_of_model(run.state, model, NOW)
    assert (found is not None) == bars
    if found is not None:
        assert (found.limited_by, found.wake_at) == ("usage_window:seven_day_opus", NOW + HOUR_S)


def test_only_stages_of_the_barred_model_wait() -> None:
    run = run_with(window("seven_day_opus", 0.5, status="rejected"), models={"implement": "opus"})
    for name, stage in (("a", Stage.IMPLEMENT), ("b", Stage.SCOPE)):
        run.succeed_until(stage, TaskId(name))
    due = plan(run.state, now=NOW, capacity=capacity(run.state, NOW, max_concurrent=4))
    assert {(start.task_id, start.stage) for start in due.starts} == {
        ("b", Stage.SCOPE),
        ("c", Stage.INTAKE),
        ("d", Stage.INTAKE),
    }
    assert due.limited_by == "usage_window:seven_day_opus"
    assert due.wake_at == NOW + HOUR_S


def test_deterministic_stages_go_on_beside_a_full_window() -> None:
    run = run_with(window("five_hour", 0.95))
    run.succeed_until(Stage.SCOPE, TaskId("a"))
    run.succeed_until(Stage.TEST, TaskId("b"))
    due = plan(run.state, now=NOW, capacity=capacity(run.state, NOW, max_concurrent=3))
    assert {start.task_id for start in due.starts} == {"b", "c"}
    assert {start.stage for start in due.starts} == {Stage.TEST, Stage.INTAKE}
    assert (due.limited_by, due.wake_at) == ("usage_window:five_hour", NOW + HOUR_S)


def test_no_more_tasks_are_taken_in_than_can_stand_in_line() -> None:
    run = Run(*(task(f"t{n}", pipeline=Pipeline.MICRO) for n in range(50)))
    run.add(WindowObserved(windows=(window("five_hour", 0.95),)))
    while starts := plan(
        run.state, now=NOW, capacity=capacity(run.state, NOW, max_concurrent=3)
    ).starts:
        for start in starts:
            run.succeed_until(Stage.IMPLEMENT, start.task_id)
    assert sum(each.stage is Stage.IMPLEMENT for each in run.state.tasks.values()) == 3


# -- what cannot be meant --------------------------------------------------------------------------

FAR = [NOW + 41 * 24 * HOUR_S, NOW * 1000, 1e300, -5.0, 0.0]


@pytest.mark.parametrize("resets_at", FAR)
def test_a_reset_that_cannot_be_is_as_none(resets_at: float) -> None:
    run = run_with(Window(name="five_hour", utilization=0.99, resets_at=resets_at))
    assert capacity(run.state, run.now, max_concurrent=3).limit == 0
    assert run.state.windows["five_hour"].resets_at is None
    assert capacity(run.state, run.now + 5 * HOUR_S, max_concurrent=3).limit == 3


def test_a_window_of_a_month_is_believed() -> None:
    ends_at = NOW + 31 * 24 * HOUR_S
    run = run_with(Window(name="monthly", utilization=0.99, resets_at=ends_at, observed_at=NOW))
    found = capacity(run.state, NOW + 30 * 24 * HOUR_S, max_concurrent=3)
    assert (found.limit, found.wake_at) == (0, ends_at)


@pytest.mark.parametrize(
    ("name", "status", "lasts_s"),
    [
        ("five_hour", "allowed_warning", 5 * HOUR_S),
        ("seven_day", "allowed_warning", 7 * 24 * HOUR_S),
        ("seven_day_overlong_name", "allowed_warning", 7 * 24 * HOUR_S),
        ("of_a_new_kind", "allowed_warning", HOUR_S),
        ("seven_day", "rejected", 600.0),
    ],
)
def test_how_long_a_window_without_a_reset_is_believed(
    name: str, status: str, lasts_s: float
) -> None:
    window_ = Window(name=name, utilization=0.95, observed_at=NOW, status=status)
    assert ends_at(window_) == NOW + lasts_s


def test_the_undated_windows_of_the_documentation() -> None:
    text = (ROOT / "docs" / "limits.md").read_text()
    for told in ("`five_hour…` 5 hours", "`seven_day…` 7 days", "any other 1 hour"):
        assert told in text
