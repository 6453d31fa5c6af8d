"""A work item on disk."""

import errno
import json
from pathlib import Path

import pytest

from adapters.execution.stems import Stem
from adapters.execution.work_file import write_work
from tests.unit.claude.test_lane import work


@pytest.mark.parametrize("name", ["prompt", "work"])
def test_a_disk_that_is_full_is_named(tmp_path: Path, name: str) -> None:
    """A write says no file's name of itself."""
    stem = Stem.first(tmp_path / "implement-attempt1")
    Path(getattr(stem, name)).symlink_to("/dev/full")
    with pytest.raises(OSError, match=str(stem.prompt)) as full:
        write_work(stem, work())
    assert full.value.errno == errno.ENOSPC


def test_it_says_its_version(tmp_path: Path) -> None:
    stem = Stem.first(tmp_path / "implement-attempt1")
    write_work(stem, work())
    assert json.loads(stem.work.read_bytes())["v"] == 1
