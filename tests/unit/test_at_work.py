"""Whether a task has a process at work, as a command may believe it."""

from collections.abc import Sequence
from typing import cast

import pytest
import trio

from drivers.at_work import look
from orchestrator.core.model import HostIdentity, ProcessIdentity, TaskId
from orchestrator.core.recover import Seen, SeenAlive, SeenDead
from orchestrator.core.resources import Resources
from orchestrator.core.state import Lease
from orchestrator.journal.live import LiveRun
from orchestrator.ports.execution import Executor
from tests.fakes.journal import MemoryJournal
from tests.simulation.driving import task
from tests.unit.test_decide import HOST, Run

A, B = TaskId("a"), TaskId("b")


class Finder:
    """The part of an Executor that is asked."""

    def __init__(self, **seen: Seen) -> None:
        self._seen = seen

    async def find(self, lease: Lease) -> Seen:
        await trio.lowlevel.checkpoint()
        return self._seen[lease.task_id]


class Here:
    def __init__(self, machine_id: str = HOST.machine_id) -> None:
        self._machine_id = machine_id

    def now(self) -> float:
        return 0.0

    def identity(self) -> HostIdentity:
        return HostIdentity(hostname=HOST.hostname, machine_id=self._machine_id, boot_id="b")

    def this_process(self) -> ProcessIdentity:
        return ProcessIdentity(pid=1, start_time=1)

    def resources(
        self, *, children: Sequence[Sequence[ProcessIdentity]], children_max: int
    ) -> Resources:
        return Resources()


async def at_work_of(run: Run, host: Here, **seen: Seen) -> frozenset[TaskId]:
    live = LiveRun(MemoryJournal(), run.state)
    return (await look(live, cast(Executor, Finder(**seen)), host))(run.state)


async def test_only_what_is_seen_to_be_gone_is_not_at_work() -> None:
    run = Run(task("a"), task("b"))
    run.dispatch(A)
    run.dispatch(B)
    assert await at_work_of(run, Here(), a=SeenAlive(), b=SeenDead("killed")) == {A}


@pytest.mark.parametrize("seen", [SeenDead("killed"), SeenAlive()])
async def test_what_another_host_started_may_be_at_work_there(seen: Seen) -> None:
    run = Run(task("a"))
    run.dispatch(A)
    assert await at_work_of(run, Here("another"), a=seen) == {A}


async def test_a_dispatch_made_since_the_look_is_at_work() -> None:
    """``abandon`` looked, waited for the driver to commit, and gave up what ran by then."""
    run = Run(task("a"))
    live = LiveRun(MemoryJournal(), run.state)
    at_work = await look(live, cast(Executor, Finder()), Here())
    assert at_work(run.state) == frozenset()
    run.dispatch(A)
    assert at_work(run.state) == {A}
