"""Whatever is set, paused and taken back, in any order: nothing of it is lost or made up."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from orchestrator.core import pausing, steer
from orchestrator.core.errors import Refused
from orchestrator.core.events import KnownEvent
from orchestrator.core.fold import replay
from orchestrator.core.graph import best_first, is_live_ready
from orchestrator.core.model import TaskId, TaskStatus
from orchestrator.core.options import flat, own_of
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.core.undo import undo
from tests.property.test_run import through_the_codec
from tests.simulation.driving import task
from tests.unit.test_decide import Run

NAMES = ("a", "b", "c")
PEOPLE = ("Ada", "Bob")
TIMES_MAX = 100

of_the_run = st.one_of(
    st.tuples(st.just("max_concurrent"), st.sampled_from(("1", "4", "default"))),
    st.tuples(st.just("budget_usd"), st.sampled_from(("2", "7.5", "none"))),
    st.tuples(st.just("pipeline"), st.sampled_from(("micro", "full"))),
    st.tuples(st.just("paused_lanes"), st.sampled_from(("none", "engine:none"))),
    st.tuples(
        st.sampled_from(("models.scope", "models.default", "efforts.review")),
        st.sampled_from(("low", "high", "default")),
    ),
)
of_a_task = st.one_of(
    st.tuples(st.just("priority"), st.sampled_from(("-1", "0", "5"))),
    st.tuples(st.just("model"), st.sampled_from(("opus", "none"))),
    st.tuples(st.just("effort"), st.sampled_from(("max", "default"))),
    st.tuples(st.just("paused"), st.sampled_from(("yes", "no"))),
)


def command(state: RunState, data: st.DataObject, by: str) -> list[KnownEvent]:
    match data.draw(st.sampled_from(("set", "task", "pause", "unpause"))):
        case "set":
            pairs = dict(data.draw(st.lists(of_the_run, min_size=1, max_size=3)))
            return steer.change_settings(state, pairs, by=by)
        case "task":
            pairs = dict(data.draw(st.lists(of_a_task, min_size=1, max_size=3)))
            return steer.change_task(state, data.draw(st.sampled_from(NAMES)), pairs, by=by)
        case how:
            tasks = data.draw(st.lists(st.sampled_from(NAMES), max_size=3))
            lanes = data.draw(st.lists(st.sampled_from(("headless:claude", "engine:none"))))
            act = pausing.pause_parts if how == "pause" else pausing.unpause_parts
            return act(state, tasks, lanes, reason=data.draw(st.text(max_size=5)), by=by)


def values(state: RunState) -> list[object]:
    return [flat(state.settings), *(own_of(state.tasks[TaskId(name)]) for name in NAMES)]


def undoable(state: RunState, by: str) -> int:
    """How many commands of this person can be taken back."""
    commands = 0
    while commands < TIMES_MAX:
        try:
            undo(state, commands + 1, by=by)
        except Refused:
            return commands
        commands += 1
    return commands


def new_run() -> Run:
    return Run(*(task(name) for name in NAMES), settings=Settings(models={"scope": "haiku"}))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_taking_all_back_gives_back_what_was(data: st.DataObject) -> None:
    run = new_run()
    first = values(run.state)
    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            few = undoable(run.state, "Ada")
            if few:
                run.add(*undo(run.state, data.draw(st.integers(1, few)), by="Ada"))
        else:
            run.add(*command(run.state, data, "Ada"))
    rest = undoable(run.state, "Ada")
    by_one = data.draw(st.booleans())
    for step in [1] * rest if by_one else [rest] * bool(rest):
        run.add(*undo(run.state, step, by="Ada"))
    assert values(run.state) == first
    assert undoable(run.state, "Ada") == 0
    check(run)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_taking_back_never_overwrites_what_another_has_changed_since(data: st.DataObject) -> None:
    run = new_run()
    for _ in range(data.draw(st.integers(0, 15))):
        by = data.draw(st.sampled_from(PEOPLE))
        if data.draw(st.integers(0, 2)):
            run.add(*command(run.state, data, by))
            continue
        before = values(run.state)
        try:
            events = undo(run.state, data.draw(st.integers(1, 3)), by=by)
        except Refused:
            assert values(run.state) == before
            continue
        given_back = {seq for event in events for seq in event.undoes}  # type: ignore[union-attr]
        assert {c.by for c in run.state.changes if c.seq in given_back} == {by}
        run.add(*events)
    check(run)


def check(run: Run) -> None:
    state = run.state
    assert replay(through_the_codec(run)) == state
    assert order(state) == expected_order(state)
    paused = {each.id for each in state.tasks.values() if each.paused is not None}
    assert state.set_aside == paused


def order(state: RunState) -> Sequence[TaskId]:
    """As a plan takes them."""
    live = [item[3] for item in best_first(state.ready) if is_live_ready(state, item)]
    return list(dict.fromkeys(live))


def expected_order(state: RunState) -> Sequence[TaskId]:
    open_now = [t for t in state.tasks.values() if t.status is TaskStatus.READY and not t.paused]
    ranked = sorted(open_now, key=lambda t: (-t.priority, -t.height, t.added_seq))
    return [each.id for each in ranked]
