"""The adapter that drives this repository."""

from pathlib import Path

import pytest

from adapters.project import selfhost
from adapters.project.file import load_project
from orchestrator.core.errors import Refused

ROOT = Path(__file__).parents[3]


def test_it_is_found_by_its_module_and_drives_this_checkout() -> None:
    project = load_project("adapters.project.selfhost", Path("/"))
    assert project.spec == "adapters.project.selfhost"
    assert Path(project.root) == ROOT


def test_its_commands_are_there() -> None:
    commands = selfhost.project().commands
    for argv in (commands.test, commands.lint):
        assert (ROOT / argv[0]).stat().st_mode & 0o111, argv


def test_installed_elsewhere_it_takes_the_checkout_around(tmp_path: Path) -> None:
    assert selfhost._checkout(tmp_path, ROOT / "adapters" / "project") == ROOT
    with pytest.raises(Refused, match="is in no checkout of orchestrator's own repository"):
        selfhost._checkout(tmp_path, tmp_path)
