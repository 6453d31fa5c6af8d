"""A process without a descriptor left says so, and how to have more."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.errors import EnvironmentFault
from orchestrator.journal.disk import FileDisk
from orchestrator.journal.read import read_entries
from orchestrator.journal.store import RunRoot


def none_left(*_: object, **__: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(
    "need",
    [
        FileDisk,
        lambda path: next(read_entries(path)),
        lambda path: RunRoot(path.parent, pinned=False).find("r1"),
    ],
    ids=["write", "read", "find"],
)
def test_the_remedy_is_of_the_error(
    need: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    monkeypatch.setattr(os, "open", none_left)
    monkeypatch.setattr(os, "scandir", none_left)
    with pytest.raises(EnvironmentFault, match=r"Too many open files.*ulimit -n"):
        need(path)
