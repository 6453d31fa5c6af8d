"""``init-project`` and ``doctor`` as a person meets them: what they print, and their status."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from adapters.project.file import load_project
from drivers.cli.init_project import _write_new
from drivers.cli.main import main
from orchestrator.core.errors import Refused


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "sample"
    (root / "tests").mkdir(parents=True)
    (root / "tests" / "test_a.py").write_text("import unittest\n")
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(root)], check=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("ORCHESTRATOR_RUNS_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return root


def test_init_project_writes_both_files_and_says_what_it_saw(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "tests")
    assert main(["init-project", "--text"]) == 0
    out, err = capsys.readouterr()
    assert "saw     Python (tests/test_a.py)" in out
    assert "python3 -m unittest discover -s tests" in out
    assert "note: the repository has no commit yet" in err
    project = load_project(None, repository)
    assert (project.name, project.git.base) == ("sample", "trunk")
    assert (repository / "tasks.toml").exists()


def test_init_project_in_json(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init-project", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["wrote"] == [
        str(repository / ".orchestrator" / "project.toml"),
        str(repository / "tasks.toml"),
    ]
    assert said["commands"]["test"] == ["python3", "-m", "unittest", "discover", "-s", "tests"]
    assert said["base"] == "trunk"


def test_init_project_overwrites_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "tasks.toml").write_text("# mine\n")
    assert main(["init-project"]) == 0
    (repository / ".orchestrator" / "project.toml").write_text('name = "mine"\n')
    capsys.readouterr()
    assert main(["init-project"]) == 1
    assert "exists already: edit it, or move it away first" in capsys.readouterr().err
    assert (repository / ".orchestrator" / "project.toml").read_text() == 'name = "mine"\n'
    assert (repository / "tasks.toml").read_text() == "# mine\n"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(Refused, match=r"cannot write .*: file exists"):
        _write_new(tmp_path / "a", "ours")
    assert (tmp_path / "a").read_text() == "mine"


def test_init_project_outside_a_repository(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.parent)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    assert main(["init-project"]) == 1
    assert "is in no git repository: `git init` it" in capsys.readouterr().err


def commit(repository: Path) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=repository, check=True)


def test_doctor_finds_a_machine_that_works(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init-project"]) == 0
    path = repository / ".orchestrator" / "project.toml"
    path.write_text(path.read_text().replace('["claude"]', '["./agent"]'))
    (repository / "agent").write_text("#!/bin/sh\necho 2.1.0\n")
    (repository / "agent").chmod(0o755)
    commit(repository)
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert {check["name"] for check in said["checks"]} >= {
        "git", "client", "login", "gh", "file locks", "clock", "room for runs", "repository",
    }  # fmt: skip
    assert {check["level"] for check in said["checks"]} <= {"ok", "warn"}


def test_doctor_says_how_to_mend_each(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["doctor", "--text"]) == 5
    out = capsys.readouterr().out
    out = re.sub(" +", " ", out)
    assert "fail git no such file or directory" in out
    assert "-> install git 2.34 or newer" in out
    assert "fail client claude is not on PATH" in out
    assert "warn project none here" in out
    assert out.rstrip().endswith("no run can work here: 3 to mend")


def test_doctor_looks_at_the_tasks(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init-project"]) == 0
    (repository / "tasks.toml").write_text(
        '[[task]]\nid = "A"\ntitle = "A"\ndepends_on = ["B"]\n'
        '[[task]]\nid = "B"\ntitle = "B"\ndepends_on = ["A"]\n'
    )
    assert main(["doctor", "--text"]) == 5
    assert re.search(r"fail +tasks +.*A.*B.*A", capsys.readouterr().out)


def test_doctor_says_how_a_project_is_made(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["doctor", "--text"])
    assert "-> orchestrator init-project" in capsys.readouterr().out
    monkeypatch.chdir(repository.parent)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    main(["doctor", "--text"])
    assert "-> git init, commit, and then: orchestrator init-project" in capsys.readouterr().out


def test_doctor_shows_a_mistake_in_the_project_file(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".orchestrator").mkdir()
    (repository / ".orchestrator" / "project.toml").write_text('nam = "x"\n')
    assert main(["doctor", "--text"]) == 5
    assert '.orchestrator/project.toml:1: unknown key "nam"; did you mean "name"?' in (
        capsys.readouterr().out
    )
