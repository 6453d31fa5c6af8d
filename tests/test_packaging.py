"""What is shipped: locks without addresses, a wheel that is whole, a unit that systemd takes."""

import plistlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==[^\s;]+( ;[^\\]+)? \\$", re.MULTILINE)
LOCKS = ["requirements.lock", "requirements-dev.lock"]


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def pinned(lock: str) -> set[str]:
    return {name_of(match[1]) for match in PIN.finditer((ROOT / lock).read_text())}


def project() -> dict[str, list[str]]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dev = table["optional-dependencies"]["dev"]
    return {LOCKS[0]: table["dependencies"], LOCKS[1]: table["dependencies"] + dev}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_pins_and_hashes_and_no_address(lock: str) -> None:
    for line in (ROOT / lock).read_text().splitlines():
        assert PIN.match(line) or re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_all_that_is_needed(lock: str) -> None:
    assert set(map(name_of, project()[lock])) <= pinned(lock)
    assert "setuptools" in pinned(lock)


def test_the_locks_agree() -> None:
    run, develop = ((ROOT / lock).read_text() for lock in LOCKS)
    pins = {line for line in run.splitlines() if "==" in line}
    assert pins <= set(develop.splitlines())


@pytest.mark.slow
def test_the_wheel_is_whole(tmp_path: Path) -> None:
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for file in filter(None, files):
        if (ROOT / file).is_file():
            (tmp_path / "src" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / "src" / file)
    build = "from setuptools import build_meta; build_meta.build_wheel('../wheel')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path / "src", check=True, capture_output=True
    )
    (wheel,) = (tmp_path / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        (entry_points,) = (name for name in inside if name.endswith("/entry_points.txt"))
        assert b"orchestrator = drivers.cli.main:console" in archive.read(entry_points)
    wanted = {
        file
        for file in filter(None, files)
        if file.startswith(("orchestrator/", "drivers/", "adapters/")) and (ROOT / file).is_file()
    }
    assert wanted - inside == set()
    assert not [name for name in inside if name.startswith("tests/") or "__pycache__" in name]
    assert {"orchestrator/py.typed", "drivers/py.typed", "adapters/py.typed"} <= inside


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on PATH")
    unit = tmp_path / "orchestrator@run.service"
    shutil.copy(ROOT / "driver.service", unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_lets_children_live_and_does_not_repeat_an_answer() -> None:
    lines = (ROOT / "driver.service").read_text().splitlines()
    assert {"KillMode=process", "OOMPolicy=continue", "Restart=on-failure"} <= set(lines)
    assert "RestartPreventExitStatus=1 2 3 4 5 6" in lines


def test_launchd_can_read_the_agent() -> None:
    agent = plistlib.loads((ROOT / "docs" / "launchd" / "orchestrator.run.plist").read_bytes())
    assert agent["AbandonProcessGroup"] is True
    assert agent["KeepAlive"] == {"Crashed": True}
    assert "run-headless" in agent["ProgramArguments"]


@pytest.mark.parametrize("script", ["scripts/test", "scripts/check", "scripts/lock", ".ci/run"])
def test_scripts_are_executable_and_plain_sh(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)


def environments() -> list[str]:
    """What scripts/env.sh makes: to run, and with a second lock to develop."""
    script = (ROOT / "scripts" / "env.sh").read_text()
    return re.findall(r"\benv=\$root/(\.cache/\S+)", script)


def test_hooks_are_the_linters_of_the_check_from_its_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook["entry"].split() for repo in config["repos"] for hook in repo["hooks"]]
    _, to_develop = environments()
    assert {Path(entry[0]).parent for entry in hooks} == {Path(to_develop) / "bin"}
    check = (ROOT / "scripts" / "check").read_text()
    assert "requirements-dev.lock" in check
    steps = re.findall(r"^step (\S+)", check, re.MULTILINE)
    assert {Path(entry[0]).name for entry in hooks} == set(steps)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_environments_that_documents_name_are_those_that_are_made(document: str) -> None:
    named = re.findall(r"\.cache/env[\w-]*", (ROOT / document).read_text())
    assert set(named) <= set(environments())
    assert environments()[1] in named, "the tests' own"
