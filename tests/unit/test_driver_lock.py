"""One driver per run, also where the file that it locks is taken away."""

import fcntl
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from drivers.headless.lock import the_only_driver
from orchestrator.core.errors import Blocked
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import DriverStatus


def test_a_file_that_was_replaced_before_it_was_locked_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(tmp_path)
    flock = fcntl.flock

    def late(fd: int, how: int) -> None:
        store.lock_path.unlink()
        store.lock_path.touch()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(Blocked, match="replaced"), the_only_driver(store):
        pytest.fail("two could drive")


@pytest.mark.parametrize(
    ("last", "is_refused"),
    [
        (DriverStatus(state="live", pid=1), True),
        (DriverStatus(state="live", pid=os.getpid()), False),
        (DriverStatus(state="exited", pid=1), False),
        (DriverStatus(state="dead", pid=1), False),
        (DriverStatus(), False),
    ],
)
def test_the_last_drivers_word_counts_while_it_lives(
    last: DriverStatus, is_refused: bool, tmp_path: Path
) -> None:
    refused = pytest.raises(Blocked, match="pid 1") if is_refused else nullcontext()
    with refused, the_only_driver(RunStore(tmp_path), lambda: last):
        pass
