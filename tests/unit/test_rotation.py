"""A session that cannot go on costs its context, not the work, nor at first an attempt."""

import pytest

from orchestrator.core.events import RunPaused
from orchestrator.core.model import CallCost, Cause, Ending, ResultStatus, SessionId, Stage
from orchestrator.core.outputs import judge
from orchestrator.core.prompts import BODY_CHARS_MAX, render
from orchestrator.core.settings import Settings
from tests.simulation.driving import task
from tests.simulation.world import success
from tests.unit.test_decide import NOW, A, Run, failing, retry_of

FULL = failing(Cause.SESSION_LOST, "context is full", raw_output="I have done a.py; b.py is next.")


def prompt(run: Run) -> str:
    present = run.state.tasks[A]
    return render(present, present.stage, template=None, base_commit="c0", branch="b")


def test_the_same_attempt_goes_on_in_another_session_that_knows_the_last_words() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    retry = retry_of(run.end(FULL))
    assert (retry.attempt, retry.spends_attempt, retry.fresh_session) == (1, False, True)
    assert run.state.tasks[A].work_session is None
    assert "> I have done a.py; b.py is next." in prompt(run)


def test_sessions_in_a_row_are_bounded_and_then_spend_an_attempt() -> None:
    run = Run(task("a"), settings=Settings(rotations_max=2))
    run.succeed_until(Stage.IMPLEMENT)
    spent = [retry_of(run.end(FULL)).spends_attempt for _ in range(4)]
    assert spent == [False, False, True, False]
    assert run.state.audit.attempts_spent == 1


def test_last_words_are_kept_until_the_stage_succeeds() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(Cause.CRASH, "killed", raw_output="Halfway."))
    run.end(failing(Cause.CRASH, "killed at once", session_lost=True))
    assert "> Halfway." in prompt(run)
    run.end(Ending(status=ResultStatus.SUCCESS))
    assert run.state.tasks[A].last_words == ""


def test_a_new_attempt_is_told_by_its_learnings() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(FULL)
    run.end(failing(Cause.WORK_ERROR, "gave up", raw_output="I give up."))
    assert run.state.tasks[A].last_words == ""
    assert "> I give up." in prompt(run)


def test_who_implements_again_is_told_what_was_said_of_the_work() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    done = {"summary": "Cut the line in two.", "files_changed": ["a.py"], "notes": "b.py is left."}
    run.end(Ending(status=ResultStatus.SUCCESS, structured_output=done))
    run.end(failing(Cause.TESTS_FAILED, "t fails", evidence={"failed": ["t"]}))
    assert "> Cut the line in two.\n> \n> b.py is left." in prompt(run)
    assert "t fails" in prompt(run)


def test_last_words_are_bounded_in_the_journal() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(failing(Cause.CRASH, raw_output="x" * 50_000 + "the end"))
    assert len(run.state.tasks[A].last_words) == 2_000
    assert run.state.tasks[A].last_words.endswith("the end")


def test_a_reviewer_without_memory_is_told_what_was_asked_before() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(success(Stage.IMPLEMENT))
    run.succeed_until(Stage.REVIEW)
    issue = {"severity": "major", "file": "a.py", "line": 3, "description": "leaks"}
    verdict = {"approved": False, "issues": [issue], "non_blocking": []}
    run.end(failing(Cause.REJECTED, "leaks", structured_output=verdict, session_lost=True))
    run.succeed_until(Stage.REVIEW)
    assert run.state.tasks[A].review_session is None
    assert "> - [major] a.py:3 leaks" in prompt(run)


def test_a_login_that_worked_is_tried_once_more_before_the_run_pauses() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.SCOPE)
    paid = Ending(status=ResultStatus.SUCCESS, cost=CallCost(cost_usd=0.1))
    run.end(paid)
    first = run.end(failing(Cause.AUTH, "expired"))
    delay_s = Settings().outage_delay_s
    assert NOW + delay_s <= (retry_of(first).not_before or 0.0) <= NOW + 1.5 * delay_s
    assert not any(isinstance(event, RunPaused) for event in first)
    second = run.end(failing(Cause.AUTH, "expired"))
    assert any(isinstance(event, RunPaused) for event in second)
    assert run.state.audit.attempts_spent == 0


def test_a_change_that_was_not_made_names_the_tools_that_were_denied() -> None:
    ending = Ending(
        status=ResultStatus.SUCCESS,
        structured_output={"summary": "s", "files_changed": [], "notes": ""},
        evidence={"denied_tools": ["Bash", "Edit"]},
    )
    found = judge(Stage.IMPLEMENT, ending, tree_before="t", tree="t", conflicts=())
    assert found.error == (
        "implement changed no file; it was denied Bash, Edit: see agent.allowed_tools"
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_text_without_end_is_cut_and_says_so(more: int) -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.SCOPE)
    run.state.tasks[A].body = "x" * (BODY_CHARS_MAX + more)
    assert ("it is cut here" in prompt(run)) == bool(more)


def test_a_session_that_goes_on_under_another_id_is_followed() -> None:
    run = Run(task("a"))
    run.succeed_until(Stage.IMPLEMENT)
    run.end(Ending(status=ResultStatus.SUCCESS, session_id=SessionId("other")))
    session = run.state.tasks[A].work_session
    assert session is not None
    assert session.id == "other"
