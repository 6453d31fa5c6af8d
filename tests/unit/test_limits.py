"""A limit that is met: until when all wait, what is shared of it, and when it is over."""

from typing import Any

import msgspec
import pytest

from drivers.headless.heartbeat import DriverState
from drivers.headless.pulse import pulse_of
from orchestrator.core.capacity import Capacity, capacity
from orchestrator.core.decide import decide
from orchestrator.core.events import (
    CooldownEnded,
    CooldownStarted,
    KnownEvent,
    RetryScheduled,
    RunPaused,
    WindowObserved,
)
from orchestrator.core.limits import answered, spread
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    Report,
    ResultStatus,
    Stage,
    TaskId,
    Window,
)
from orchestrator.core.plan import Plan, plan
from orchestrator.core.settings import Settings
from orchestrator.core.standing import Limit, Standing, merged, news, standing_of
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run, failing, retry_of

A, B = TaskId("a"), TaskId("b")
FOUR = Capacity(limit=4)
SUCCESS = Ending(status=ResultStatus.SUCCESS)


def at_scope(*names: str, **settings: Any) -> Run:
    run = Run(*(task(name) for name in names), settings=Settings(limit_jitter_s=0.0, **settings))
    for name in names:
        run.succeed_until(Stage.SCOPE, TaskId(name))
    return run


def due(run: Run, capacity: Capacity = FOUR) -> Plan:
    return plan(run.state, now=run.now, capacity=capacity)


def hears(run: Run, standing: Standing, account: str = "claude") -> tuple[KnownEvent, ...]:
    events = news(run.state, standing, account=account, now=run.now)
    run.add(*events)
    return events


# -- met ------------------------------------------------------------------------------------------


def test_a_limit_stops_every_model_and_nothing_else() -> None:
    run = at_scope("a", "b")
    run.add(task("c"))
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    (start,) = due(run).starts
    assert (start.task_id, start.stage) == ("c", Stage.INTAKE)
    assert (due(run).limited_by, due(run).wake_at) == ("cooldown", NOW + 500)


@pytest.mark.parametrize("rejected", [(), ("five_hour",)], ids=["by words", "by a window"])
def test_a_limit_that_is_waited_out_is_a_cooldown_to_who_looks_on(
    rejected: tuple[str, ...],
) -> None:
    run = at_scope("a")
    windows = [Window(name=name, status="rejected", resets_at=NOW + 500) for name in rejected]
    run.add(WindowObserved(windows=tuple(windows)))
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    room = capacity(run.state, NOW, max_concurrent=4)
    seen = pulse_of(run.state, due(run, room), room, is_preparing=False)
    assert (seen.state, seen.limited_by) == (DriverState.WAITING_ON_COOLDOWN, "cooldown")
    assert seen.wait_until == NOW + 500


def test_after_the_reset_one_goes_first() -> None:
    run = at_scope("a", "b")
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    run.now = NOW + 500
    (canary,) = due(run).starts
    run.dispatch(canary.task_id)
    assert due(run).starts == ()
    assert due(run).limited_by == "canary"
    assert answered(run.state, "b/scope/a1/d1", run.now) == ()
    (ended,) = answered(run.state, f"{canary.task_id}/scope/a1/d2", run.now)
    run.add(ended)
    assert [start.task_id for start in due(run).starts] == ["b"]


def test_what_was_out_before_the_limit_does_not_end_it() -> None:
    run = at_scope("a", "b", "c")
    before = run.dispatch(B)
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    assert answered(run.state, before.work_item_id, NOW + 1) == ()
    run.now = NOW + 400
    run.end_out(SUCCESS, B)
    assert (run.state.canary, run.state.cooldown_until) == ("account", NOW + 500)


def test_what_succeeds_after_the_reset_ends_it() -> None:
    run = at_scope("a", "b")
    run.dispatch(B)
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    run.now = NOW + 600
    events = run.end_out(msgspec.structs.replace(SUCCESS, ended_at=NOW + 600), B)
    assert any(isinstance(event, CooldownEnded) for event in events)
    assert (run.state.canary, run.state.cooldown_until, run.state.probes) == ("", None, 0)


def test_a_rejection_that_is_heard_after_its_reset_holds_nothing_up() -> None:
    run = at_scope("a")
    events = run.end(failing(Cause.LIMIT, resets_at=NOW - 10, ended_at=NOW - 60))
    assert retry_of(events).not_before is None
    assert not any(isinstance(event, CooldownStarted) for event in events)


def test_a_rejection_from_before_the_account_was_open_again_holds_nothing_up() -> None:
    run = at_scope("a")
    hears(run, Standing(limit=Limit(at=NOW - 100, until=NOW + 50)))
    hears(run, Standing(limit=Limit(at=NOW - 20)))
    events = run.end(failing(Cause.LIMIT, resets_at=NOW + 100, ended_at=NOW - 60))
    assert retry_of(events).not_before is None
    assert run.state.cooldown_until is None


def test_the_first_look_after_the_reset_is_followed_by_longer_and_longer_waits() -> None:
    run = at_scope("a")
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    waits = []
    for _ in range(3):
        run.now = run.state.cooldown_until or 0.0
        run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
        waits.append((run.state.cooldown_until or 0.0) - run.now)
    assert waits == [300.0, 600.0, 1200.0]
    run.now = run.state.cooldown_until or 0.0
    run.end(failing(Cause.LIMIT, resets_at=run.now + 9000))
    assert run.state.probes == 0, "another window, with a moment of its own"


def test_a_limit_of_one_model_stops_no_other() -> None:
    opus = Window(name="seven_day_opus", utilization=1.0, resets_at=NOW + 500, status="rejected")
    run = at_scope("a", "b", models={"default": "sonnet", "scope": "opus"})
    run.succeed_until(Stage.IMPLEMENT, B)
    events = run.end(failing(Cause.LIMIT, resets_at=NOW + 500, windows=(opus,)))
    assert not any(isinstance(event, CooldownStarted) for event in events)
    dated = msgspec.structs.replace(opus, observed_at=NOW)
    assert [e.windows for e in events if isinstance(e, WindowObserved)] == [(dated,)]
    assert [start.task_id for start in due(run).starts] == ["b"]


def test_the_account_is_not_asked_by_all_at_the_same_moment() -> None:
    run = Run(task("a"), settings=Settings(limit_jitter_s=100.0))
    run.succeed_until(Stage.SCOPE)
    run.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    assert run.state.cooldown_until == NOW + 500 + 100 * spread("r/a")
    assert len({spread(f"run-{n}/T1") for n in range(10)}) > 5


def test_a_login_that_has_worked_gets_one_more_try() -> None:
    run = at_scope("a")
    hears(run, Standing(windows=(Window(name="five_hour", utilization=0.1, observed_at=NOW),)))
    assert not any(isinstance(e, RunPaused) for e in run.end(failing(Cause.AUTH, "log in")))
    run.now += 100
    assert any(isinstance(e, RunPaused) for e in run.end(failing(Cause.AUTH, "log in")))
    assert run.state.audit.attempts_spent == 0


# -- shared ---------------------------------------------------------------------------------------


def test_what_one_driver_meets_another_waits_out() -> None:
    one, other = at_scope("a"), at_scope("a")
    one.end(failing(Cause.LIMIT, "your limit", resets_at=NOW + 500))
    (seen, started) = hears(other, standing_of(one.state))
    assert isinstance(started, CooldownStarted)
    assert (started.until, started.by, started.probes) == (NOW + 500, "claude", 0)
    assert isinstance(seen, WindowObserved)
    assert due(other).starts == ()
    assert hears(other, standing_of(one.state)) == (), "once is enough"
    assert hears(one, standing_of(other.state))[1:] == (), "its own word comes back"


def test_what_one_canary_finds_opens_all() -> None:
    one, other = at_scope("a"), at_scope("a")
    one.end(failing(Cause.LIMIT, resets_at=NOW + 500))
    hears(other, standing_of(one.state))
    one.now = other.now = NOW + 500
    one.end(SUCCESS)
    (ended,) = hears(other, standing_of(one.state))
    assert isinstance(ended, CooldownEnded)
    assert ended.by == "claude"
    assert [start.task_id for start in due(other).starts] == ["a"]


def test_a_limit_that_has_passed_says_nothing_to_a_driver_that_begins() -> None:
    run = at_scope("a")
    standing = Standing(
        windows=(Window(name="five_hour", utilization=1.0, resets_at=NOW - 1, observed_at=NOW),),
        limit=Limit(at=NOW - 500, until=NOW - 1),
    )
    assert hears(run, standing) == (WindowObserved(windows=(), account="claude"),)
    assert len(due(run).starts) == 1


def test_another_account_starts_with_a_clean_sheet() -> None:
    run = at_scope("a")
    hears(run, Standing(windows=(Window(name="seven_day", utilization=0.95, observed_at=NOW),)))
    run.end(failing(Cause.LIMIT, resets_at=NOW + 5000))
    run.now += 1
    assert due(run).starts == ()
    hears(run, Standing(), account="work")
    assert (run.state.windows, run.state.cooldown_until, run.state.canary) == ({}, None, "")
    assert run.state.account == "work"


def test_what_was_written_before_the_clock_was_set_back_says_nothing() -> None:
    late = Standing(
        windows=(Window(name="five_hour", utilization=1.0, observed_at=NOW + 9999),),
        limit=Limit(at=NOW + 9999, until=NOW + 99999),
    )
    run = at_scope("a")
    assert hears(run, late) == (WindowObserved(windows=(), account="claude"),)
    mine = Standing(limit=Limit(at=NOW, until=NOW + 50))
    assert merged(late, mine, NOW) == mine


# -- what fits ------------------------------------------------------------------------------------


def seen(run: Run, share: float, name: str = "five_hour") -> None:
    run.now += 1
    full = Window(name=name, utilization=share, resets_at=NOW + 9000, observed_at=run.now)
    run.add(WindowObserved(windows=(full,)))


def costing(usd: float) -> Ending:
    return msgspec.structs.replace(SUCCESS, cost=CallCost(cost_usd=usd))


def learned(*, ends_at: float) -> Run:
    """Scope costs 0.40 USD and implement 4; a dollar takes a twentieth of the window."""
    run = at_scope("a", "b", "c")
    run.succeed_until(Stage.IMPLEMENT, B)
    seen(run, ends_at - 0.22)
    run.end(costing(0.4))
    run.end(costing(4.0))
    seen(run, ends_at)
    return run


def test_a_stage_that_does_not_fit_waits_and_a_smaller_one_starts() -> None:
    run = learned(ends_at=0.8)
    found = due(run)
    assert [(s.task_id, s.stage) for s in found.starts if not s.stage.is_deterministic] == [
        ("c", Stage.SCOPE)
    ]
    assert (found.limited_by, found.wake_at) == ("usage_window:five_hour", NOW + 9000)


def test_where_there_is_room_both_start() -> None:
    assert {s.task_id for s in due(learned(ends_at=0.4)).starts} == {"a", "b", "c"}


def test_what_is_out_counts_too() -> None:
    run = learned(ends_at=0.68)
    run.dispatch(B)
    assert [s.task_id for s in due(run).starts] == ["a", "c"]
    run.end_out(failing(Cause.LIMIT, resets_at=NOW + 1), B)
    run = learned(ends_at=0.68)
    run.succeed_until(Stage.IMPLEMENT, TaskId("c"))
    starts = [s.task_id for s in due(run).starts if not s.stage.is_deterministic]
    assert len(starts) == 1, "two of them would not fit"


def test_another_period_is_learned_anew() -> None:
    run = learned(ends_at=0.8)
    seen(run, 0.05)
    assert run.state.window_rates["five_hour"].share == 0.05
    assert len(due(run).starts) == 3


def test_what_is_not_known_fits() -> None:
    run = at_scope("a", "b")
    seen(run, 0.85)
    assert len(due(run).starts) == 2


# -- a moment that cannot be meant -----------------------------------------------------------------


@pytest.mark.parametrize("resets_at", [NOW + 41 * 86_400, NOW * 1000, 1e300, -7.0])
def test_a_limit_until_never_is_asked_again_after_a_delay(resets_at: float) -> None:
    run = at_scope("a", "b")
    window = Window(name="five_hour", status="rejected", utilization=1.0, resets_at=resets_at)
    run.end(failing(Cause.LIMIT, resets_at=resets_at, windows=(window,)))
    assert run.state.cooldown_until == NOW + run.state.settings.limit_delay_s
    run.now = NOW + run.state.settings.limit_delay_s
    room = capacity(run.state, run.now, max_concurrent=3)
    (canary,) = plan(run.state, now=run.now, capacity=room).starts
    run.dispatch(canary.task_id)
    run.end_out(failing(Cause.LIMIT, resets_at=resets_at, windows=(window,)), canary.task_id)
    assert run.state.cooldown_until == run.now + 2 * run.state.settings.limit_probe_s


@pytest.mark.parametrize("until", [NOW + 41 * 86_400, 1e15, 1e308])
def test_a_limit_until_never_that_another_driver_tells_is_asked_again_after_a_delay(
    until: float,
) -> None:
    """What is written to the journal, and told, is what is done."""
    run = at_scope("a")
    limit = Limit(at=NOW, until=until, reason="why" * 1000, probes=2**70)
    (_, told) = hears(run, Standing(limit=limit))
    assert isinstance(told, CooldownStarted)
    assert told.until == run.state.cooldown_until == run.now + run.state.settings.limit_delay_s
    assert (run.state.probes < 2**63, len(told.reason)) == (True, 300)
    assert hears(run, Standing(limit=limit)) == ()


@pytest.mark.parametrize("share", [1e308, -1e308, 47.0])
def test_a_window_that_is_fuller_than_can_be_says_nothing(share: float) -> None:
    run = at_scope("a")
    hears(run, Standing(windows=(Window(name="five_hour", utilization=share, observed_at=NOW),)))
    assert run.state.windows["five_hour"].utilization is None
    assert capacity(run.state, run.now, max_concurrent=3).limit == 3


def test_a_wait_of_an_old_journal_that_never_ends_does() -> None:
    run = at_scope("a")
    out = run.dispatch(A)
    ending = failing(Cause.LIMIT, resets_at=NOW + 500)
    report = Report(work_item_id=out.work_item_id, content_hash="h", ending=ending)
    for event in decide(run.state, report, run.now):
        match event:
            case RetryScheduled():
                run.add(msgspec.structs.replace(event, not_before=1e300))
            case CooldownStarted():
                run.add(msgspec.structs.replace(event, until=1e300))
            case _:
                run.add(event)
    later = run.now + run.state.settings.limit_delay_s
    assert (run.state.cooldown_until, run.state.tasks[A].not_before) == (later, later)
