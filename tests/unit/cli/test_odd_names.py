"""Words with bytes that are no UTF-8, as a shell hands them over: refused in one line."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from drivers.cli.main import main
from orchestrator.core.events import RunCreated, TaskAbandoned
from orchestrator.core.model import TaskId
from orchestrator.core.settings import Project, Settings
from orchestrator.journal.codec import encode_commit
from tests.unit.journal.events import NOW, added, created

ODD = os.fsdecode(b"a\xff\xfeb")


@pytest.mark.parametrize(
    ("words", "statuses"),
    [
        (("--run", ODD, "status"), {1}),
        (("--run", "r1", "tail", ODD), {1}),
        (("--run", "r1", "abandon", ODD), {1}),
        (("--run", "r1", "next", "--task", ODD), {1}),
        (("--run", "r1", "set", "budget_usd", ODD), {2}),
        (("--run", "r1", "set", ODD, "1"), {2}),
        (("--run", "r1", "record", "--result", ODD), {2}),
        (("--run", "r1", "cost-report", "--by", ODD), {2}),
        (("--project", ODD, "--run", "r2", "init-run"), {2}),
        ((ODD,), {2}),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) and value[-1] != ODD else None,
)
def test_it_is_one_line(
    words: tuple[str, ...],
    statuses: set[int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = encode_commit([created(), added("a")], after_seq=0, run_id="r1", now=NOW)[0]
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / "events.jsonl").write_bytes(lines)
    assert main(["--root", str(tmp_path), *words]) in statuses
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert len(said) == 1
    assert "unexpected" not in said[0]


@pytest.mark.parametrize("odd", ["root", "repository"])
def test_a_place_that_cannot_be_recorded_makes_no_run(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / (ODD if odd == "repository" else "repository")
    root = tmp_path / (ODD if odd == "root" else "root")
    try:
        (repository / ".orchestrator").mkdir(parents=True)
    except OSError:
        pytest.skip("this file system has no such names")
    (repository / "tasks.toml").touch()
    (repository / ".orchestrator" / "project.toml").write_text('schema = 1\nname = "p"\n')
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True, timeout=20)
    monkeypatch.chdir(repository)
    assert main(["--root", str(root), "--run", "r1", "init-run"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "is not UTF-8" in said
    assert not root.exists()


def test_a_command_that_is_told_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = 'it\'s "x" $(touch pwned)'
    project = Project(name="sample", root=str(tmp_path))
    (tmp_path / ".git").mkdir()
    begun = RunCreated(settings=Settings(), project=project)
    lines = encode_commit(
        [begun, added(odd), TaskAbandoned(task_id=TaskId(odd))],
        after_seq=0,
        run_id="r1",
        now=NOW,
    )[0]
    (tmp_path / "r1").mkdir()
    (tmp_path / "r1" / "events.jsonl").write_bytes(lines)
    main(["--root", str(tmp_path), "--run", "r1", "--text", "next", "--task", odd])
    told = re.search(r"`(requeue .*)` does it again", capsys.readouterr().err)
    assert told is not None
    assert shlex.split(told[1]) == ["requeue", odd]
