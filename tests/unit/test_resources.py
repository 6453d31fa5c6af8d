"""What the host's resources allow, and what a kill for want of memory leads to."""

from collections.abc import Sequence

import msgspec
import pytest

from orchestrator.core.capacity import capacity
from orchestrator.core.decide import decide
from orchestrator.core.events import KnownEvent, MemoryRanOut, SettingsChanged, TaskFailed
from orchestrator.core.history import MEMORY_SAMPLES_MIN, Sample
from orchestrator.core.model import (
    Cause,
    Ending,
    Outcome,
    ProcessIdentity,
    Report,
    Stage,
    TaskId,
    TaskStatus,
)
from orchestrator.core.plan import plan
from orchestrator.core.resources import LOOK_AGAIN_S, MB, NAMES, Resources, limit_on, look, why
from orchestrator.core.settings import Settings
from tests.simulation.driving import task
from tests.unit.test_decide import NOW, A, Run, failing, retry_of

B, C = TaskId("b"), TaskId("c")
CHILD, FREE = 300 * MB, 500 * MB
"""The defaults of child_memory_mb and memory_free_min_mb."""


def with_memory(children: int, *taken: int) -> Resources:
    """For so many children, beside what is left free."""
    available = FREE + children * CHILD
    return Resources(memory_available_bytes=available, children_bytes=taken)


def run_with(out: int, **settings: object) -> Run:
    run = Run(*(task(name) for name in "abcdef"), settings=Settings(**settings))  # type: ignore[arg-type]
    for name in "abcdef"[:out]:
        run.dispatch(TaskId(name))
    return run


def end_of(run: Run, task_id: TaskId, ending: Ending) -> Sequence[KnownEvent]:
    """Of a dispatch that is out."""
    report = Report(
        work_item_id=run.state.in_flight[task_id].work_item_id, content_hash="h", ending=ending
    )
    events = decide(run.state, report, run.now)
    run.add(*events)
    return events


@pytest.mark.parametrize(
    ("out", "host", "expected"),
    [
        (1, Resources(), (1_000_000, "")),
        (1, with_memory(3), (3, "memory")),
        (1, with_memory(3, CHILD), (4, "memory")),
        (1, with_memory(3, 9 * CHILD), (4, "memory")),
        (2, with_memory(3, 9 * CHILD, 0), (4, "memory")),
        (2, Resources(memory_available_bytes=0), (2, "memory")),
        (0, Resources(memory_available_bytes=0), (1, "memory")),
        (0, Resources(disk_free_bytes=499 * MB), (0, "disk")),
        (2, Resources(disk_free_bytes=499 * MB), (2, "disk")),
        (2, Resources(disk_free_bytes=500 * MB), (1_000_000, "")),
        (2, Resources(load_per_core=8.1), (2, "load")),
        (0, Resources(load_per_core=8.1), (1, "load")),
        (0, Resources(load_per_core=8.0), (1_000_000, "")),
        (2, Resources(host_children_free=0), (2, "host_children")),
        (0, Resources(host_children_free=0), (0, "host_children")),
        (1, msgspec.structs.replace(with_memory(2), host_children_free=2), (2, "memory")),
    ],
    ids=str,
)
def test_how_many_a_host_allows(out: int, host: Resources, expected: tuple[int, str]) -> None:
    assert limit_on(host, run_with(out).state) == expected


def test_a_resource_that_is_not_to_be_looked_at_limits_nothing() -> None:
    run = run_with(1, memory_free_min_mb=0.0, disk_free_min_mb=0.0, load_per_core_max=0.0)
    host = Resources(memory_available_bytes=0, disk_free_bytes=0, load_per_core=99.0)
    assert limit_on(host, run.state) == (1_000_000, "")


def test_a_look_holds_although_more_has_started_since() -> None:
    """Its figures are from before those have taken what they need."""
    run = run_with(1)
    host = Resources(memory_available_bytes=FREE + 3 * CHILD, out=0)
    assert limit_on(host, run.state) == (3, "memory")
    run.dispatch(B)
    assert limit_on(host, run.state) == (3, "memory")


def test_what_a_child_needs_is_learned() -> None:
    run = run_with(0)
    host = Resources(memory_available_bytes=FREE + 4000 * MB)

    def at_host(*, children: Sequence[Sequence[ProcessIdentity]], children_max: int) -> Resources:
        assert (children, children_max) == ([], 16)
        return host

    for number in range(MEMORY_SAMPLES_MIN):
        assert limit_on(look(at_host, run.state), run.state) == (13, "memory")
        peak = (1000 if number else 3000) * MB
        run.state.history.add(
            Sample(
                stage=Stage.TEST, outcome=Outcome.ADVANCED, duration_s=1.0, peak_memory_bytes=peak
            )
        )
    assert look(at_host, run.state).child_bytes == 3000 * MB
    assert limit_on(look(at_host, run.state), run.state) == (1, "memory")


def test_a_plan_says_what_limits_it_and_looks_again_soon() -> None:
    run = run_with(1)
    room = capacity(run.state, NOW, max_concurrent=3, host=Resources(memory_available_bytes=FREE))
    due = plan(run.state, now=NOW, capacity=room)
    assert (due.starts, due.limited_by) == ((), "memory")
    assert due.wake_at == NOW + LOOK_AGAIN_S


def test_nothing_is_out_and_there_is_no_room_is_no_stall() -> None:
    """Time may bring it; a person need not."""
    run = run_with(0)
    for host in (Resources(disk_free_bytes=0), Resources(host_children_free=0)):
        room = capacity(run.state, NOW, max_concurrent=3, host=host)
        due = plan(run.state, now=NOW, capacity=room)
        assert (due.starts, due.stalled, due.wake_at) == ((), "", NOW + LOOK_AGAIN_S)
        assert due.limited_by in NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_why_names_a_setting(name: str) -> None:
    said = why(name, Settings())
    setting = said[said.rindex("(") + 1 : -1]
    assert setting in Settings.__struct_fields__


# -- killed for want of memory ----------------------------------------------------------------


def test_a_kill_for_want_of_memory_lowers_the_limit_and_is_tried_again_later() -> None:
    run = run_with(3)
    events = end_of(run, A, failing(Cause.OUT_OF_MEMORY, "killed"))
    (fewer,) = [event for event in events if isinstance(event, MemoryRanOut)]
    assert fewer.limit == 2
    retry = retry_of(events)
    assert (retry.spends_attempt, retry.attempt) == (False, 1)
    assert retry.not_before is not None
    assert retry.not_before > NOW
    room = capacity(run.state, NOW, max_concurrent=3)
    assert (room.limit, room.limited_by, room.wake_at) == (2, "memory", fewer.until)
    # Another is killed beside it: fewer still, and never none.
    for name, limit in ((B, 1), (C, 1)):
        end_of(run, name, failing(Cause.OUT_OF_MEMORY, "killed"))
        assert capacity(run.state, NOW, max_concurrent=3).limit == limit
    assert capacity(run.state, fewer.until, max_concurrent=3).limit == 3


def test_each_death_waits_longer_and_their_number_is_bounded() -> None:
    run = run_with(0)
    run.add(SettingsChanged(changes={"dispatches_max": 3}))
    waits = []
    for _ in range(2):
        waits.append((retry_of(run.end(failing(Cause.OUT_OF_MEMORY))).not_before or 0) - run.now)
        run.now += 3600
    assert waits == [30.0, 60.0]
    events = run.end(failing(Cause.OUT_OF_MEMORY))
    assert [event for event in events if isinstance(event, TaskFailed)]
    assert run.state.tasks[A].status is TaskStatus.FAILED
    assert run.state.audit.attempts_spent == 0


def test_what_was_lowered_is_kept_in_the_state() -> None:
    run = run_with(3)
    end_of(run, A, failing(Cause.OUT_OF_MEMORY))
    packed = msgspec.msgpack.encode(run.state)
    again = msgspec.msgpack.decode(packed, type=type(run.state))
    assert (again.memory_limit, again.memory_limit_until) == (2, run.state.memory_limit_until)
