"""Where ``demo`` and ``rehearse`` cannot make their directory: one line, and nothing made."""

from pathlib import Path

import pytest

from drivers.cli.main import main
from orchestrator.core.errors import ExitStatus


@pytest.mark.parametrize("verb", ["demo", "rehearse"])
@pytest.mark.parametrize("below", ["file", "x" * 300])
def test_a_place_where_nothing_can_be_made(
    verb: str,
    below: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert main([verb, "--dir", f"{below}/demo"]) == ExitStatus.ENVIRONMENT
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert len(said) == 1
    assert said[0].endswith("name another with --dir")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
