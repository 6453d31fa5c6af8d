"""Which host a lease belongs to, and what becomes of it."""

import msgspec
import pytest

from orchestrator.core.model import HostIdentity
from orchestrator.core.recover import is_same_host

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
