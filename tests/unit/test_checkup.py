"""Doctor's checks: each finds the trouble that it is there for, and says how to mend it."""

import fcntl
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.execution import rehearsal
from drivers.checkup import client, machine, project as checked, storage
from drivers.checkup.check import Check, Level
from orchestrator.core.model import TaskId
from orchestrator.core.settings import AgentSettings, Commands, Project
from orchestrator.ports.tasks import SourceTask

HERE = Path.cwd()


def program(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestMachine:
    def test_this_machine_runs_the_tests_so_it_can_run_orchestrator(self) -> None:
        for look in (machine.python, machine.system, machine.git, machine.subreaper):
            assert look().level is Level.OK, look()
        assert machine.clock(HERE).level is Level.OK

    def test_no_git(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert machine.git().level is Level.FAIL
        assert machine.git().found == "no such file or directory"
        assert machine.git().mend.startswith("install git 2.34 or newer")

    @pytest.mark.parametrize(
        ("said", "level"),
        [
            ("git version 2.33.9", Level.FAIL),
            ("git version 2.34.0", Level.OK),
            ("git version 3.1", Level.OK),
            ("git version 2.39.5 (Apple Git-154)", Level.OK),
            ("xcode-select: error", Level.FAIL),
        ],
    )
    def test_versions_of_git(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, level: Level
    ) -> None:
        program(tmp_path, "git", f"echo '{said}'")
        monkeypatch.setenv("PATH", str(tmp_path))
        assert machine.git().level is level

    def test_gh_is_optional(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert machine.gh().level is Level.OK
        program(tmp_path, "gh", "exit 3")
        assert (machine.gh().level, machine.gh().found) == (Level.WARN, "exit 3")

    def test_few_open_files(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
            assert machine.open_files().level is Level.WARN
            resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
            assert machine.open_files().level is Level.FAIL
            assert machine.open_files().mend.startswith("ulimit -n 1024")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_clock_before_this_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "time", lambda: 0.0)
        assert machine.clock(HERE).level is Level.FAIL
        assert machine.clock(HERE).found == "1970-01-01 00:00 UTC"

    def test_a_clock_apart_from_the_file_servers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ahead = time.time() + 3600
        monkeypatch.setattr(time, "time", lambda: ahead)
        assert machine.clock(HERE).level is Level.WARN


class TestStorage:
    def test_a_root_that_is_there_or_can_be_made(self, tmp_path: Path) -> None:
        assert storage.runs_root(tmp_path).level is Level.OK
        to_be_made = tmp_path / "a" / "b"
        assert storage.runs_root(to_be_made).found == f"{to_be_made} (to be made)"
        assert storage.locks(to_be_made).level is Level.OK
        assert list(tmp_path.iterdir()) == []

    def test_a_root_that_cannot_be_written(self) -> None:
        check = storage.runs_root(Path("/proc/self"))
        assert check.level is Level.FAIL
        assert "ORCHESTRATOR_RUNS_ROOT" in check.mend

    def test_locks_that_do_not_work(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def refuse(*_: object) -> None:
            raise OSError(37, "No locks available")

        monkeypatch.setattr(fcntl, "flock", refuse)
        check = storage.locks(tmp_path)
        assert (check.level, check.found) == (Level.FAIL, "no locks available")

    def test_locks_that_keep_nobody_out(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
        assert storage.locks(tmp_path).found == "two processes can hold the same one"

    @pytest.mark.parametrize(
        ("free", "level"), [(1e8, Level.FAIL), (1e9, Level.WARN), (1e11, Level.OK)]
    )
    def test_room(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: float, level: Level
    ) -> None:
        usage = shutil._ntuple_diskusage(10**12, 0, int(free))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
        assert storage.room("room", tmp_path / "not" / "yet").level is level


class TestClient:
    def agent(self, command: Path | str, **more: Any) -> AgentSettings:
        return AgentSettings(command=(str(command),), **more)

    def test_it_is_asked_for_its_version_in_a_clean_environment(self, tmp_path: Path) -> None:
        claude = program(tmp_path, "claude", 'echo "2.1.332 (Claude Code)$SECRET$CLAUDECODE"')
        environ = {**os.environ, "SECRET": "x", "CLAUDECODE": "1"}
        check = client.version(self.agent(claude), tmp_path, environ)
        assert check.level is Level.OK
        assert check.found == f"2.1.332 (Claude Code) ({claude})"

    @pytest.mark.parametrize(
        ("text", "level", "found"),
        [
            ("echo 1.0.9", Level.WARN, "1.0.9"),
            ("echo hello", Level.WARN, "'hello' is no version"),
            ("echo no >&2; exit 1", Level.FAIL, "--version: no"),
        ],
    )
    def test_clients_that_are_not_right(
        self, tmp_path: Path, text: str, level: Level, found: str
    ) -> None:
        agent = self.agent(program(tmp_path, "claude", text))
        check = client.version(agent, tmp_path, os.environ)
        assert check.level is level
        assert found in check.found

    def test_none_on_path(self, tmp_path: Path) -> None:
        check = client.version(AgentSettings(), tmp_path, {"PATH": str(tmp_path)})
        assert (check.level, check.found) == (Level.FAIL, "claude is not on PATH")
        assert "[agent] command" in check.mend

    def test_the_rehearsal_agent_is_a_client(self, tmp_path: Path) -> None:
        agent = AgentSettings(command=rehearsal.command())
        assert client.version(agent, tmp_path, os.environ).level is Level.OK
        assert client.login(None, agent, {}).level is Level.OK

    def test_no_login(self, tmp_path: Path) -> None:
        environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk"}
        check = client.login(None, AgentSettings(), environ)
        assert check.level is Level.FAIL
        assert "handed on only if [agent] pass_env names it" in check.found

    def test_logins(self, tmp_path: Path) -> None:
        home = {"HOME": str(tmp_path)}
        token = {**home, "CLAUDE_CODE_OAUTH_TOKEN": "t"}
        assert client.login(None, AgentSettings(), token).found == "by CLAUDE_CODE_OAUTH_TOKEN"
        billed = client.login(
            None,
            AgentSettings(pass_env=("ANTHROPIC_API_KEY",)),
            {**home, "ANTHROPIC_API_KEY": "sk"},
        )
        assert billed.level is Level.WARN
        (tmp_path / "c").mkdir()
        (tmp_path / "c" / ".credentials.json").touch()
        stored = {**home, "CLAUDE_CONFIG_DIR": str(tmp_path / "c")}
        assert client.login(None, AgentSettings(), stored).found.startswith("stored")

    def test_who_pays_is_who_is_meant_to(self, tmp_path: Path) -> None:
        home, key = {"HOME": str(tmp_path)}, {"ANTHROPIC_API_KEY": "sk"}
        handing_on = ("ANTHROPIC_API_KEY",)
        meant = AgentSettings(billing="api_key", pass_env=handing_on)
        assert client.login(None, meant, {**home, **key}).level is Level.OK
        lacking = client.login(None, meant, home)
        assert (lacking.level, lacking.found.split(",")[1]) == (
            Level.FAIL,
            " and no key is handed on",
        )
        stray = AgentSettings(billing="subscription", pass_env=handing_on)
        found = client.login(None, stray, {**home, **key})
        assert found.level is Level.FAIL
        assert "a run would stop at once" in found.mend
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / ".credentials.json").touch()
        by_login = AgentSettings(billing="api_key")
        assert client.login(None, by_login, home).level is Level.OK

    def test_a_token_file(self, tmp_path: Path) -> None:
        agent = AgentSettings(oauth_token_file="token")
        project = Project(name="x", root=str(tmp_path), agent=agent)
        assert client.login(project, agent, {}).level is Level.FAIL
        (tmp_path / "token").write_text("abc\n")
        assert client.login(project, agent, {}).found == "by agent.oauth_token_file"

    def test_bypass_is_said(self) -> None:
        free = AgentSettings(permission_mode="bypassPermissions", env={"IS_SANDBOX": "1"})
        assert client.permissions(free).level is Level.WARN
        assert client.permissions(AgentSettings()).level is Level.OK
        if os.geteuid() == 0:
            bare = AgentSettings(permission_mode="bypassPermissions")
            assert client.permissions(bare).level is Level.FAIL


class TestProject:
    def project(self, root: Path, **commands: tuple[str, ...]) -> Project:
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        return Project(name="p", root=str(root), commands=Commands(**commands))

    def test_a_program_that_is_nowhere_fails(self, tmp_path: Path) -> None:
        missing = self.project(tmp_path, test=("nosuchprog", "-q"))
        (check,) = checked.commands(missing, os.environ)
        assert (check.level, check.found) == (Level.FAIL, "test: nosuchprog is not on PATH")
        assert check.mend == "install it, or mend [commands] test"
        (check,) = checked.commands(
            self.project(tmp_path, install=("sh", "x"), test=("sh", "-c", "A=1 nosuchprog -q | x")),
            os.environ,
        )
        assert (check.level, check.mend) == (Level.WARN, "see that the install command brings it")

    def test_a_program_of_the_repository_must_be_in_git(self, tmp_path: Path) -> None:
        program(tmp_path, "check", "")
        untracked = self.project(tmp_path, test=("./check",))
        (check,) = checked.commands(untracked, os.environ)
        assert check.found == "test: ./check is not in git: a fresh worktree lacks it"
        subprocess.run(["git", "-C", str(tmp_path), "add", "check"], check=True)
        (check,) = checked.commands(untracked, os.environ)
        assert (check.level, check.found) == (Level.OK, "programs of test are there")

    def test_a_module_that_python_does_not_find_fails(self, tmp_path: Path) -> None:
        def of(*words: str, **more: tuple[str, ...]) -> Check:
            (check,) = checked.commands(self.project(tmp_path, test=words, **more), os.environ)
            return check

        check = of(sys.executable, "-m", "nosuchmodule", "-q")
        assert check.level is Level.FAIL
        assert check.found == f"test: {sys.executable} has no module nosuchmodule"
        assert of("sh", "-c", f"{sys.executable} -m nosuchmodule").level is Level.FAIL
        assert of(sys.executable, "-m", "nosuchmodule", install=("true",)).level is Level.OK
        assert of(sys.executable, "-m", "unittest").level is Level.OK
        assert of(sys.executable, "-m").level is Level.OK
        (tmp_path / "here.py").write_text("")
        assert of(sys.executable, "-m", "here").level is Level.OK

    @pytest.mark.parametrize(
        ("script", "program"),
        [
            ("pytest -q", "pytest"),
            ("A=1 B=2 make -C x", "make"),
            ("cd x && make", ""),
            ("$TOOL test", ""),
            ("(make)", ""),
            ("'unclosed", ""),
            ("", ""),
        ],
    )
    def test_what_a_shell_is_to_run_is_told_where_it_is_plain(
        self, script: str, program: str
    ) -> None:
        assert checked.plain_words(("sh", "-c", script))[:1] == ([program] if program else [])

    def test_models_that_nobody_knows_are_noted(self, tmp_path: Path) -> None:
        known = ("sonnet", "opus[1m]", "claude-sonnet-4-5-20250929", "us.anthropic.claude-x-v1:0")
        project = self.project(tmp_path)
        good = msgspec.structs.replace(project, models=dict(enumerate(known)))
        assert checked.models(good).level is Level.OK
        odd = msgspec.structs.replace(project, models={"default": "sonet"})
        assert checked.models(odd).level is Level.WARN
        assert "sonet" in checked.models(odd).found

    def test_no_tasks(self) -> None:
        assert checked.tasks((), "tasks.toml").level is Level.WARN
        done = SourceTask(id=TaskId("A"), title="A", done=True)
        assert checked.tasks((done,), "tasks.toml").found == "1 in tasks.toml, 1 of them done"
