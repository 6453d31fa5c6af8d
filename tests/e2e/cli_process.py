"""The program as a person runs it: a process of its own, in a home and a repository of its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.execution import rehearsal
from drivers.cli.main import main

SOURCE = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60

TASKS = """
[[task]]
id = "#12"
title = "First"
body = "Do the first thing."

[[task]]
id = "B"
title = "Second"
depends_on = ["#12"]
labels = ["later"]

[[task]]
id = "C"
title = "Third"
depends_on = ["B"]
"""


@dataclass(frozen=True)
class Home:
    """A directory that holds a home, and a sample repository that uses the rehearsal agent."""

    path: Path
    repository: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "repository", self.path / "repository")

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.path / "home"),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "LANG": "C.UTF-8",
            "USER": "someone",
        }

    def orchestrator(
        self,
        *words: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        preexec: Callable[[], None] | None = None,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        # A limit of ``preexec`` is not for compiled files: Python leaves them cut off, for all.
        uncached = {"PYTHONDONTWRITEBYTECODE": "1"} if preexec else {}
        return subprocess.run(
            [sys.executable, "-m", "orchestrator", *words],
            cwd=cwd or self.repository,
            env={**self.environment(), **uncached, **(env or {})},
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            preexec_fn=preexec,
            check=False,
        )

    def call(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The same without a process of its own, where that makes no difference: far quicker."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        before, now = dict(os.environ), self.environment()
        os.environ.clear()
        os.environ.update(now)
        try:
            with chdir(cwd or self.repository), redirect_stdout(out), redirect_stderr(err):
                status = main(words)
        finally:
            os.environ.clear()
            os.environ.update(before)
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())

    def json(self, *words: str) -> Any:
        done = self.call(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def store(self, run: str) -> Path:
        (found,) = (self.path / "home" / "Development" / "runs").glob(f"*/*/{run}")
        return found

    def events(self, run: str) -> list[dict[str, Any]]:
        return lines(self.store(run) / "events.jsonl")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.invalid", *words],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return done.stdout.strip()


def make_home(path: Path, *, tasks: str = TASKS, scenario: str = "schema = 1\n") -> Home:
    home = Home(path)
    (path / "home").mkdir()
    (path / "scenario.toml").write_text(scenario)
    (home.repository / ".orchestrator").mkdir(parents=True)
    command = json.dumps(rehearsal.command(str(path / "scenario.toml")))
    (home.repository / ".orchestrator" / "project.toml").write_text(
        'schema = 1\nname = "sample"\n[tasks]\nsource = "local"\npath = "tasks.toml"\n'
        f"[agent]\ncommand = {command}\n"
    )
    (home.repository / "tasks.toml").write_text(tasks)
    git(home.repository, "init", "-q", "-b", "main")
    git(home.repository, "add", ".")
    git(home.repository, "commit", "-q", "-m", "start")
    return home


def the_one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What went wrong, as it was told: one line, and no traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    told = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(told) == 1, done.stderr
    assert told[0].startswith("orchestrator: "), done.stderr
    return told[0]
