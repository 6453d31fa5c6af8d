"""The main job, end to end: the real driver, the real client, real files, commits and tests."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tests.loopback_api import Gate, Reply, Request, ToolUse, Turn, replies
from tests.real_client.batch import USAGE, Batch, Model
from tests.real_client.client import API_KEY, SUBSCRIPTION, wait_until

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

_KILLS_MAX = 10
_MODEL_STAGES = ("scope", "implement", "review")


@pytest.fixture
def batch(real_client: Path, tmp_path: Path) -> Iterator[Callable[[Model], Batch]]:
    with ExitStack() as stack:
        yield lambda model: stack.enter_context(Batch(real_client, tmp_path, model))


def _assert_books_balance(done: Batch) -> None:
    """The ledger is the sum of what each session was charged, and of what the API answered."""
    records = [event for event in done.events("stage_recorded") if event.get("cost")]
    totals: dict[str, float] = defaultdict(float)
    for event in records:
        session = event["session_id"]
        totals[session] = max(totals[session], event["cost"]["session_total_usd"])
    spent = sum(event["cost"]["cost_usd"] for event in records)

    assert spent == pytest.approx(sum(totals.values()))
    assert done.status()["cost"]["total_usd"] == pytest.approx(spent)
    counted = sum(event["cost"].get("input_tokens", 0) for event in records)
    assert counted == USAGE.input_tokens * done.model.answered.total()


def _assert_audits_clean(done: Batch) -> None:
    status = done.status()
    assert status["events_audit"]["clean"], status["events_audit"]
    assert status["events_audit"]["outstanding"] == 0
    assert status["lane_audit"]["clean"], status["lane_audit"]
    sequence = [event["seq"] for event in done.events()]
    assert sequence == list(range(1, len(sequence) + 1))


def _assert_nothing_ran_twice(done: Batch) -> None:
    recorded = [
        (event["task_id"], event["stage"], event["attempt"], event["outcome"])
        for event in done.events("stage_recorded")
    ]
    assert len(recorded) == len(set(recorded))
    asked_twice = {call: count for call, count in done.model.calls.items() if count > 1}
    assert asked_twice == {}
    assert done.processes() == []


def _attempts(done: Batch) -> set[int]:
    return {event["attempt"] for event in done.events("stage_dispatched")}


def test_three_tasks_go_through_all_six_stages(batch: Callable[[Model], Batch]) -> None:
    done = batch(Model())
    done.make_run("T1", "T2", "T3")
    assert done.drive(API_KEY) == 0, done.narration()

    status = done.status()
    assert status["run_state"] == "completed"
    assert {task["state"] for task in status["tasks"]} == {"completed"}
    assert _attempts(done) == {1}
    _assert_nothing_ran_twice(done)
    _assert_audits_clean(done)
    _assert_books_balance(done)
    _assert_sessions_chain(done)
    _assert_branches_hold_the_work(done, status)
    assert status["events_audit"]["dispatched"] == status["events_audit"]["recorded"] == 18


def _assert_sessions_chain(done: Batch) -> None:
    """Scope and implement share a session, review has its own, tasks share none."""
    sessions = {
        (event["task_id"], event["stage"]): event["session_id"]
        for event in done.events("stage_dispatched")
        if event["stage"] in _MODEL_STAGES
    }
    for task in ("T1", "T2", "T3"):
        assert sessions[task, "scope"] == sessions[task, "implement"]
        assert sessions[task, "review"] != sessions[task, "implement"]
    assert len(set(sessions.values())) == 6
    # What the API saw is what the journal says.
    for request in done.requests():
        assert request.session_id == sessions[request.task, request.stage]
    first = {"scope": 1, "implement": 2, "review": 1}
    for request in done.requests():
        assert len(request.prompts) == first[request.stage]


def _assert_branches_hold_the_work(done: Batch, status: dict[str, Any]) -> None:
    branches = {task["task_id"]: task["branch"] for task in status["tasks"]}
    assert done.git("show", f"{branches['T1']}:calc/square.py").startswith("def square")
    assert done.git("show", f"{branches['T2']}:calc/cube.py").startswith("def cube")
    merged = done.git("ls-tree", "-r", "--name-only", branches["T3"]).splitlines()
    assert {"calc/square.py", "calc/cube.py", "tests/test_square.py"} <= set(merged)
    assert '__all__ = ["cube", "square"]' in done.git("show", f"{branches['T3']}:calc/__init__.py")
    assert done.git("status", "--porcelain") == ""
    assert done.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_a_killed_driver_loses_nothing_and_repeats_nothing(
    batch: Callable[[Model], Batch],
) -> None:
    gate = Gate()

    def hold_implement(request: Request) -> Reply | None:
        held = request.stage == "implement" and request.task in {"T1", "T2"}
        if held and request.turn == 2:
            test = ToolUse("Bash", {"command": "python3 -m unittest discover -v"})
            return Turn((test,), usage=USAGE, gate=gate)
        return None

    done = batch(Model(instead=hold_implement))
    done.make_run("T1", "T2", "T3", lane="micro")
    driver = done.start_driver(API_KEY)
    gate.wait_for_arrival()
    gate.wait_for_arrival()
    driver.kill()
    driver.wait()
    assert len(done.clients()) == 2, "they go on without a driver"
    assert done.recorded("T1", "implement") == done.recorded("T2", "implement") == []
    successor = done.start_driver(API_KEY)
    wait_until(lambda: len(done.events("dispatch_reclaimed")) == 2, "both are taken up")
    gate.open()
    assert successor.wait(timeout=90) == 0, done.narration()

    reclaimed = done.events("dispatch_reclaimed")
    assert {event["how"] for event in reclaimed} == {"adopted"}
    assert done.status()["run_state"] == "completed"
    assert _attempts(done) == {1}
    assert len(done.recorded("T1", "implement")) == 1
    _assert_nothing_ran_twice(done)
    _assert_audits_clean(done)
    _assert_books_balance(done)


def test_a_driver_that_is_killed_again_and_again_comes_to_the_same_end(
    batch: Callable[[Model], Batch],
) -> None:
    done = batch(Model())
    done.make_run("T1", "T2", "T3", lane="micro")
    kills = 0
    driver = done.start_driver(API_KEY)
    while kills < _KILLS_MAX and _comes_to_another_result(done, driver):
        driver.kill()
        driver.wait()
        kills += 1
        driver = done.start_driver(API_KEY)
    assert driver.wait(timeout=90) == 0, done.narration()

    assert kills > 3
    assert done.status()["run_state"] == "completed"
    assert _attempts(done) == {1}
    _assert_nothing_ran_twice(done)
    _assert_audits_clean(done)
    _assert_books_balance(done)
    _assert_branches_hold_the_work(done, done.status())


def _comes_to_another_result(done: Batch, driver: "Popen[str]") -> bool:
    """Wait for it; False when the driver came to its end instead."""
    seen = len(done.events("stage_recorded"))
    wait_until(
        lambda: len(done.events("stage_recorded")) > seen or driver.poll() is not None,
        "another result",
    )
    return driver.poll() is None


def test_a_rejected_review_sends_the_task_back(batch: Callable[[Model], Batch]) -> None:
    issue = {"severity": "major", "file": "calc/square.py", "description": "No docstring."}
    verdict = {"approved": False, "issues": [issue], "non_blocking": []}
    mend = ToolUse("Bash", {"command": "echo '# documented' >> calc/square.py"})

    def reject_once(request: Request) -> Reply | None:
        is_first = len(request.prompts) == 1
        if request.stage == "review" and is_first and request.turn == 1:
            return Turn((ToolUse("StructuredOutput", verdict),), usage=USAGE)
        if request.stage == "implement" and not is_first and request.turn == 0:
            return Turn((mend,), usage=USAGE)
        return None

    done = batch(Model(instead=reject_once))
    done.make_run("T1", lane="micro")
    assert done.drive(API_KEY) == 0, done.narration()

    implements, reviews = done.recorded("T1", "implement"), done.recorded("T1", "review")
    assert [event["attempt"] for event in implements] == [1, 2]
    assert [event["outcome"] for event in reviews] == ["sent_back", "completed"]
    for events in (implements, reviews):
        assert len({event["session_id"] for event in events}) == 1
    second = next(r for r in done.requests() if r.stage == "implement" and len(r.prompts) == 2)
    assert "No docstring." in second.prompt
    (branch,) = (task["branch"] for task in done.status()["tasks"])
    assert "# documented" in done.git("show", f"{branch}:calc/square.py")
    _assert_audits_clean(done)
    _assert_books_balance(done)


def test_what_ended_without_a_driver_is_harvested(batch: Callable[[Model], Batch]) -> None:
    gate = Gate()

    def hold_the_answer(request: Request) -> Reply | None:
        if request.stage == "implement" and request.turn == 2:
            test = ToolUse("Bash", {"command": "python3 -m unittest discover -v"})
            return Turn((test,), usage=USAGE, gate=gate)
        return None

    done = batch(Model(instead=hold_the_answer))
    done.make_run("T1", lane="micro")
    driver = done.start_driver(API_KEY)
    gate.wait_for_arrival()
    driver.kill()
    driver.wait()
    gate.open()
    wait_until(lambda: done.processes() == [], "the client ends without a driver")
    assert done.recorded("T1", "implement") == []
    assert done.drive(API_KEY) == 0, done.narration()

    (reclaimed,) = done.events("dispatch_reclaimed")
    assert reclaimed["how"] == "harvested"
    assert _attempts(done) == {1}
    _assert_nothing_ran_twice(done)
    _assert_audits_clean(done)
    _assert_books_balance(done)


def test_a_killed_client_goes_on_in_its_session(batch: Callable[[Model], Batch]) -> None:
    def sleep_once(request: Request) -> Reply | None:
        first = len(request.prompts) == 1
        if request.stage == "implement" and request.turn == 1 and first:
            return Turn((ToolUse("Bash", {"command": "touch begun; sleep 300"}),), usage=USAGE)
        return None

    done = batch(Model(instead=sleep_once))
    done.make_run("T1", lane="micro")
    driver = done.start_driver(API_KEY)
    wait_until(lambda: list(done.repository.rglob("begun")) != [], "the tool runs", 60)
    (child,) = done.clients()
    child.kill()
    assert driver.wait(timeout=90) == 0, done.narration()

    dispatched = [e for e in done.events("stage_dispatched") if e["stage"] == "implement"]
    assert [(e["attempt"], e["dispatch"]) for e in dispatched] == [(1, 1), (1, 2)]
    assert len({event["session_id"] for event in dispatched}) == 1
    assert dispatched[1]["resume"] is True
    again = [r for r in done.requests() if r.stage == "implement" and len(r.prompts) == 2]
    assert "interrupted" in again[0].prompt
    assert [event["outcome"] for event in done.recorded("T1", "implement")] == ["again", "advanced"]
    assert done.processes() == [], "the sleeping tool is gone too"
    _assert_audits_clean(done)


def test_a_usage_limit_is_waited_out_without_an_attempt(batch: Callable[[Model], Batch]) -> None:
    """The window is full for all requests until it resets, as with a real account."""
    rejected: list[float] = []

    def full_once(request: Request) -> Reply | None:
        if request.stage == "implement" and not rejected:
            rejected.append(request.arrived_at)
            return replies.limit_reached(resets_in_s=4)
        return None

    done = batch(Model(instead=full_once))
    done.make_run("T1", lane="micro")
    assert done.drive(SUBSCRIPTION) == 0, done.narration()

    (cooldown,) = done.events("cooldown_started")
    after = [r.arrived_at for r in done.requests() if r.arrived_at > rejected[0]]
    assert min(after) >= int(rejected[0] + 4)
    assert cooldown["until"] >= int(rejected[0] + 4)
    first, second = done.recorded("T1", "implement")
    assert (first["status"], first["cause"], first["outcome"]) == ("rate_limited", "limit", "again")
    assert second["status"] == "success"
    assert _attempts(done) == {1}
    assert done.status()["run_state"] == "completed"
    _assert_audits_clean(done)
