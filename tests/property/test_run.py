"""Whatever a run is told, in any order: the invariants hold, and replay gives the same state."""

from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from orchestrator.core import steer
from orchestrator.core.capacity import Capacity
from orchestrator.core.decide import decide
from orchestrator.core.errors import Refused
from orchestrator.core.events import Entry, KnownEvent, RunFinalized, TaskAdded, Unknown
from orchestrator.core.fold import fold, replay
from orchestrator.core.model import (
    CallCost,
    Cause,
    Ending,
    Pipeline,
    Report,
    ResultStatus,
    RunStatus,
    Stage,
    TaskStatus,
)
from orchestrator.core.plan import Plan, plan
from orchestrator.core.settings import Settings
from orchestrator.core.state import RunState
from orchestrator.journal import snapshot
from orchestrator.journal.codec import decode, encode_commit
from orchestrator.journal.scan import Position
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, Run

LIMIT = 2
STEPS_MAX = 60


@st.composite
def dags(draw: st.DrawFn) -> list[TaskAdded]:
    names = [f"t{i}" for i in range(draw(st.integers(1, 5)))]
    return [
        task(
            name,
            *draw(st.sets(st.sampled_from(names[:i]), max_size=2) if i else st.just(set())),
            pipeline=draw(st.sampled_from(Pipeline)),
        )
        for i, name in enumerate(names)
    ]


endings = st.one_of(
    st.builds(
        Ending,
        status=st.just(ResultStatus.SUCCESS),
        cost=st.one_of(st.none(), st.builds(CallCost, cost_usd=st.floats(0.01, 1))),
    ),
    st.builds(
        Ending,
        status=st.just(ResultStatus.FAILURE),
        cause=st.sampled_from(Cause),
        error=st.sampled_from(("one", "two", "three")),
        resets_at=st.one_of(st.none(), st.floats(NOW, NOW + 9999)),
        cost=st.one_of(st.none(), st.builds(CallCost, cost_usd=st.floats(0.01, 1))),
    ),
)


def due_at(run: Run, now: float) -> Plan:
    return plan(run.state, now=now, capacity=Capacity(limit=LIMIT))


@settings(max_examples=60, deadline=None)
@given(dags(), st.data())
def test_any_course_of_a_run_keeps_the_invariants(
    tasks: Sequence[TaskAdded], data: st.DataObject
) -> None:
    run = Run(*tasks, settings=Settings(max_concurrent=LIMIT))
    now = NOW
    for _ in range(STEPS_MAX):
        action = data.draw(st.sampled_from(("start", "end", "end", "end", "steer", "time")))
        if action == "start":
            for start in due_at(run, now).starts:
                run.dispatch(start.task_id)
        elif action == "end" and run.state.in_flight:
            end_one(run, data, now)
        elif action == "steer":
            run.add(*steered(run.state, data))
        else:
            now += data.draw(st.floats(0, 5000))
        if (end := due_at(run, now).finalize) is not None:
            run.add(RunFinalized(state=end))
        check(run, due_at(run, now))
    entries = through_the_codec(run)
    assert replay(entries) == run.state
    before = data.draw(st.integers(1, len(entries)))
    state = abbreviated(replay(entries[:before]))
    for entry in entries[before:]:
        fold(state, entry)
    assert state == run.state


def abbreviated(state: RunState) -> RunState:
    """As a snapshot has it."""
    return snapshot.decode(snapshot.encode(state, Position(0, 0, state.seq, b"", 0))).state


def end_one(run: Run, data: st.DataObject, now: float) -> None:
    task_id = data.draw(st.sampled_from(sorted(run.state.in_flight)))
    lease = run.state.in_flight[task_id]
    spent = run.state.audit.attempts_spent
    report = Report(work_item_id=lease.work_item_id, content_hash="h", ending=data.draw(endings))
    run.add(*decide(run.state, report, now))
    cause = report.ending.cause
    if cause in {Cause.CRASH, Cause.INTERRUPTED, Cause.LIMIT, Cause.OUTAGE, Cause.AUTH}:
        assert run.state.audit.attempts_spent == spent


def steered(state: RunState, data: st.DataObject) -> Sequence[KnownEvent]:
    name = data.draw(st.sampled_from(sorted(state.tasks)))
    command = data.draw(st.sampled_from(("pause", "unpause", "requeue", "abandon")))
    try:
        match command:
            case "pause":
                return steer.pause(state, reason="test", by="test")
            case "unpause":
                return steer.unpause(state, by="test")
            case "requeue":
                return steer.requeue(state, [name], reason="test")
            case _:
                return steer.abandon(state, [name], reason="test", live=())
    except Refused:
        return ()


def through_the_codec(run: Run) -> list[Entry]:
    """The entries, as they come back from a file."""
    entries = []
    for entry in run.entries:
        assert not isinstance(entry.event, Unknown)
        data, _ = encode_commit([entry.event], after_seq=entry.seq - 1, run_id="r", now=entry.ts)
        entries.append(decode(data.rstrip(b"\n"))[0])
    return entries


def check(run: Run, due: Plan) -> None:
    state = run.state
    by_status = {s: sum(t.status is s for t in state.tasks.values()) for s in TaskStatus}
    assert {s: n for s, n in state.counts.items() if n} == {s: n for s, n in by_status.items() if n}
    leased = {t.id for t in state.tasks.values() if t.lease is not None}
    assert set(state.in_flight) == leased
    assert leased == {t.id for t in state.tasks.values() if t.status is TaskStatus.RUNNING}
    assert len(leased) <= LIMIT
    for each in state.tasks.values():
        if each.status in {TaskStatus.READY, TaskStatus.RUNNING, TaskStatus.COMPLETED}:
            assert not each.unmet or each.stale
        if each.status in {TaskStatus.READY, TaskStatus.RUNNING} and each.stage is Stage.INTAKE:
            needs = [state.tasks[need].status for need in each.depends_on]
            assert each.stale or set(needs) <= {TaskStatus.COMPLETED}, "it starts too early"
        assert each.attempt <= state.settings.attempts_max
    ready = [t for t in state.tasks.values() if t.status is TaskStatus.READY]
    if state.paused is None and due.limited_by == "tasks":
        assert len(due.starts) >= len(ready), "a ready task waits beside a free slot"
    if state.finalized is not None:
        assert state.status in {RunStatus.FAILED, RunStatus.COMPLETED, state.finalized}
    assert state.totals.cost_usd >= 0
