"""Whatever is heard of an account, in any order: nothing starts that it has no room for."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from orchestrator.core.capacity import capacity
from orchestrator.core.choice import model_of
from orchestrator.core.decide import decide
from orchestrator.core.events import CooldownEnded, CooldownStarted, WindowObserved
from orchestrator.core.fold import replay
from orchestrator.core.limits import answered
from orchestrator.core.model import CallCost, Cause, Ending, Report, ResultStatus, TaskId, Window
from orchestrator.core.plan import StartStage, plan
from orchestrator.core.settings import Settings
from orchestrator.core.standing import Limit, Standing, merged, news, standing_of
from orchestrator.core.windows import ends_at, fullest, limit_at, model_in
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run

MOST = 4
TASKS = [f"t{n}" for n in range(6)]
STEPS_MAX = 50

windows = st.builds(
    Window,
    name=st.sampled_from(("five_hour", "seven_day", "seven_day_opus", "seven_day_sonnet")),
    utilization=st.floats(0, 1),
    resets_at=st.floats(NOW, NOW + 20_000),
    status=st.sampled_from(("allowed", "allowed", "allowed_warning", "rejected")),
    overage=st.booleans(),
    observed_at=st.floats(NOW - 100, NOW + 9000),
)
limits = st.builds(
    Limit,
    at=st.floats(NOW - 100, NOW + 9000),
    until=st.one_of(st.none(), st.floats(NOW, NOW + 20_000)),
    probes=st.integers(0, 9),
)
standings = st.builds(
    Standing, windows=st.lists(windows, max_size=3).map(tuple), limit=st.none() | limits
)
endings = st.one_of(
    st.builds(
        Ending,
        status=st.just(ResultStatus.SUCCESS),
        cost=st.builds(CallCost, cost_usd=st.floats(0.01, 3)),
    ),
    st.builds(
        Ending,
        status=st.just(ResultStatus.FAILURE),
        cause=st.sampled_from((Cause.LIMIT, Cause.LIMIT, Cause.OUTAGE, Cause.CRASH)),
        error=st.just("why"),
        resets_at=st.none() | st.floats(NOW - 100, NOW + 20_000),
        windows=st.lists(windows, max_size=2).map(tuple),
    ),
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_nothing_starts_that_the_account_has_no_room_for(data: st.DataObject) -> None:
    headroom = data.draw(st.sampled_from((0.0, 0.1, 0.4)))
    told = Settings(headroom_share=headroom, models={"scope": "opus"}, failing_tasks_max=1000)
    run = Run(*(task(name) for name in TASKS), settings=told)
    for _ in range(data.draw(st.integers(1, STEPS_MAX))):
        match data.draw(st.sampled_from(("start", "start", "end", "end", "hear", "time"))):
            case "start":
                for start in due(run):
                    check(run, start)
                    run.dispatch(start.task_id)
            case "end" if run.state.in_flight:
                end_one(run, data)
            case "hear":
                heard = news(run.state, data.draw(standings), account="claude", now=run.now)
                run.add(*heard)
            case _:
                run.now += data.draw(st.floats(0, 3000))
    assert run.state.audit.attempts_spent == 0
    assert replay(run.entries) == run.state


def due(run: Run) -> Sequence[StartStage]:
    room = capacity(run.state, run.now, max_concurrent=MOST)
    return plan(run.state, now=run.now, capacity=room).starts


def end_one(run: Run, data: st.DataObject) -> None:
    task_id = data.draw(st.sampled_from(sorted(run.state.in_flight)))
    lease = run.state.in_flight[TaskId(task_id)]
    if not lease.stage.is_deterministic and data.draw(st.booleans()):
        run.add(*answered(run.state, lease.work_item_id, run.now))
    ending = data.draw(endings) if not lease.stage.is_deterministic else SUCCESS
    report = Report(work_item_id=lease.work_item_id, content_hash="h", ending=ending)
    run.add(*decide(run.state, report, run.now))


SUCCESS = Ending(status=ResultStatus.SUCCESS)


def check(run: Run, start: StartStage) -> None:
    state, now = run.state, run.now
    assert len(state.in_flight) < MOST
    if start.stage.is_deterministic:
        return
    out = sum(not lease.stage.is_deterministic for lease in state.in_flight.values())
    assert state.cooldown_until is None or state.cooldown_until <= now
    assert not (state.canary and out), "beside the canary"
    share, _, _ = fullest(state, now)
    assert out < (MOST if share is None else limit_at(share, MOST, state.settings))
    model = model_of(state, state.tasks[start.task_id], start.stage)
    for window in state.windows.values():
        if ends_at(window) > now and model_in(window.name) in model:
            assert window.status != "rejected"
            assert not window.overage
            assert (window.utilization or 0.0) < 1.0 - state.settings.headroom_share


@given(standings, standings, standings)
def test_who_tells_first_does_not_matter(one: Standing, two: Standing, three: Standing) -> None:
    """But for two words of the same moment."""
    moments = [w.observed_at for s in (one, two, three) for w in s.windows]
    moments += [s.limit.at for s in (one, two, three) if s.limit]
    if len(set(moments)) < len(moments):
        return
    now = NOW + 9000
    left = merged(merged(one, two, now), three, now)
    right = merged(three, merged(two, one, now), now)
    assert left == right
    assert merged(left, left, now) == left


@given(st.lists(standings, max_size=4), st.data())
def test_what_is_heard_once_is_no_news_again(said: list[Standing], data: st.DataObject) -> None:
    run = Run(task("a"))
    run.now = NOW + 9000
    for standing in said:
        run.add(*news(run.state, standing, account="claude", now=run.now))
        assert news(run.state, standing, account="claude", now=run.now) == ()
    back = news(run.state, standing_of(run.state), account="claude", now=run.now)
    assert not [e for e in back if isinstance(e, CooldownStarted | CooldownEnded)]
    assert not [e for e in back if isinstance(e, WindowObserved) and e.windows]
