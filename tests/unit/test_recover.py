"""Which host a lease belongs to, and what becomes of it."""

import msgspec
import pytest

from orchestrator.core.errors import Blocked
from orchestrator.core.events import DispatchReclaimed
from orchestrator.core.model import HostIdentity
from orchestrator.core.recover import SeenNothing, is_same_host, leases_to_look_at, recover
from tests.simulation.driving import task
from tests.unit.test_decide import Run

HERE = HostIdentity(hostname="here", machine_id="m", boot_id="b", pid_namespace="p")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"boot_id": "later"}, True),  # rebooted
        ({"hostname": "in-a-cafe"}, True),  # a laptop in another network
        ({"hostname": "clone", "pid_namespace": "q"}, False),  # containers of one image
        ({"hostname": "clone", "boot_id": "other"}, False),
        ({"machine_id": "n"}, False),
    ],
)
def test_a_host_is_known_again(changes: dict[str, str], same: bool) -> None:
    assert is_same_host(HERE, msgspec.structs.replace(HERE, **changes)) is same


def test_what_another_host_has_is_left_alone_until_a_person_takes_it_over() -> None:
    run = Run(task("a"), task("b"))
    lease = run.dispatch()
    assert leases_to_look_at(run.state, HERE) == ()
    seen = {lease.task_id: SeenNothing()}
    with pytest.raises(Blocked) as blocked:
        recover(run.state, seen, HERE)
    told = str(blocked.value)
    assert told.startswith(f"blocked_on_orphaned_dispatches: {lease.work_item_id} was started on")
    assert told.endswith(", then: orchestrator --run r run-headless --take-over")
    taken = recover(run.state, seen, HERE, take_over=True)
    (event,) = taken.events
    assert isinstance(event, DispatchReclaimed)
    assert (event.how, event.work_item_id) == ("redispatched", lease.work_item_id)
    assert taken.attach == ()
    run.add(event)
    assert (run.state.in_flight, run.state.audit.attempts_spent) == ({}, 0)
