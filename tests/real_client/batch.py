"""A small batch on the real client: a repository, three tasks, a scripted model, the real driver.

T1 and T2 are independent; T3 builds on both.  Everything is a process: the commands, the
driver, its shims, the client, git.  What a test leaves running is ended when the Batch closes,
found by its home directory, which is this test's own.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.loopback_api import LoopbackApi, Reply, Request, Text, ToolUse, Turn, Usage

CHECKOUT = Path(__file__).parents[2]
RUN = "night"
_COMMAND_TIMEOUT_S = 120.0

_PROJECT = """\
schema = 1
name = "sample"

[commands]
test = ["python3", "-m", "unittest", "discover", "-v"]

[agent]
command = [{client}]
pass_env = ["ANTHROPIC_API_KEY"]
allowed_tools = ["Bash(python3 -m unittest *)", "Bash(touch *)", "Bash(sleep *)"]

[agent.env]
ANTHROPIC_BASE_URL = "{url}"
PYTHONDONTWRITEBYTECODE = "1"

[agent.models]
default = "claude-sonnet-4-6"
"""
_TASKS = """\
[[task]]
id = "T1"
title = "Add square"
body = "square(n) in calc/square.py, with a test."

[[task]]
id = "T2"
title = "Add cube"
body = "cube(n) in calc/cube.py, with a test."

[[task]]
id = "T3"
title = "Export both"
body = "calc exports square and cube."
depends_on = ["T1", "T2"]
"""
_FILES = {
    "calc/__init__.py": '"""Sums."""\n\n__all__ = []\n',
    "tests/__init__.py": "",
    "tests/test_calc.py": (
        "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n"
        "    def test_all_is_a_list(self):\n        self.assertIsInstance(calc.__all__, list)\n"
    ),
    ".gitignore": "__pycache__/\n.worktrees/\n",
    ".orchestrator/project.toml": _PROJECT,
    "tasks.toml": _TASKS,
}

_RUNS_TESTS = ToolUse("Bash", {"command": "python3 -m unittest discover -v"})


def _function(name: str, exponent: int) -> tuple[ToolUse, ...]:
    code = f"def {name}(n):\n    return n**{exponent}\n"
    test = (
        f"import unittest\n\nfrom calc.{name} import {name}\n\n\n"
        f"class Test{name.title()}(unittest.TestCase):\n"
        f"    def test_{name}(self):\n        self.assertEqual({name}(3), {3**exponent})\n"
    )
    return (
        ToolUse("Write", {"file_path": f"calc/{name}.py", "content": code}),
        ToolUse("Write", {"file_path": f"tests/test_{name}.py", "content": test}),
        _RUNS_TESTS,
    )


_READS = ToolUse("Read", {"file_path": "calc/__init__.py"})
_EXPORTS = ToolUse(
    "Edit",
    {
        "file_path": "calc/__init__.py",
        "old_string": "__all__ = []",
        "new_string": (
            "from calc.cube import cube\nfrom calc.square import square\n\n"
            '__all__ = ["cube", "square"]'
        ),
    },
)
STEPS: Mapping[tuple[str, str], tuple[ToolUse, ...]] = {
    ("T1", "scope"): (_READS,),
    ("T1", "implement"): _function("square", 2),
    ("T1", "review"): (_READS,),
    ("T2", "scope"): (_READS,),
    ("T2", "implement"): _function("cube", 3),
    ("T2", "review"): (_READS,),
    ("T3", "scope"): (_READS,),
    ("T3", "implement"): (_READS, _EXPORTS, _RUNS_TESTS),
    ("T3", "review"): (_READS,),
}
OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "scope": {"feasible": True, "plan": ["Write it."], "risks": []},
    "implement": {"summary": "Wrote it.", "files_changed": [], "notes": ""},
    "review": {"approved": True, "issues": [], "non_blocking": []},
}
USAGE = Usage(input_tokens=700, output_tokens=90, cache_read_tokens=4000, cache_write_tokens=500)

Instead = Callable[[Request], Reply | None]


@dataclass
class Model:
    """The scripted model.  ``instead`` may answer in its place; None lets it go on."""

    instead: Instead = lambda _: None
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each task's stage was asked anew: a prompt that had no answer yet."""
    answered: Counter[str] = field(default_factory=Counter)
    """Turns that were answered and charged, per session."""

    def __call__(self, request: Request) -> Reply:
        if request.turn == 0:
            self.calls[request.task, request.stage] += 1
        reply = self.instead(request) or self._go_on(request)
        if isinstance(reply, Turn):
            self.answered[request.session_id] += 1
        return reply

    def _go_on(self, request: Request) -> Turn:
        steps = STEPS[request.task, request.stage]
        if request.turn < len(steps):
            said = Text(f"Step {request.turn + 1}.")
            return Turn((said, steps[request.turn]), usage=USAGE)
        answer = ToolUse("StructuredOutput", OUTPUTS[request.stage])
        return Turn((answer,), usage=USAGE)


class Batch:
    """One run of the sample in a directory of its own, and the commands on it."""

    def __init__(self, client: Path, where: Path, model: Model) -> None:
        self.model = model
        self.home = where / "home"
        self.repository = where / "sample"
        self.store = where / "store"
        self._client = client.resolve()
        self._api = LoopbackApi(model)
        self._drivers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Batch":
        self._api.__enter__()
        self.home.mkdir()
        self._make_repository()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_processes()
        finally:
            self._api.close()
        assert self._api.errors == []

    # -- making it --------------------------------------------------------------------------

    def _make_repository(self) -> None:
        for name, text in _FILES.items():
            path = self.repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("project.toml"):
                text = text.format(client=json.dumps(str(self._client)), url=self._api.url)
            path.write_text(text)
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "A sample")

    def make_run(self, *tasks: str, lane: str = "full", **settings: str) -> None:
        """A run of these tasks.  Jitter is off: a limit's end is the moment that it names."""
        self.command("init-run", "--lane", lane)
        self.command("add-task", *(word for task in tasks for word in ("--task", task)))
        pairs = {"limit_jitter_s": "0", **settings}
        self.command("set", *(word for pair in pairs.items() for word in pair))

    # -- processes --------------------------------------------------------------------------

    def environment(self, credential: Mapping[str, str]) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(CHECKOUT),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Test",
            "GIT_AUTHOR_EMAIL": "test@example.invalid",
            "GIT_COMMITTER_NAME": "Test",
            "GIT_COMMITTER_EMAIL": "test@example.invalid",
            **credential,
        }

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.repository,
            env=self.environment({}),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def command(self, *words: str, expect: int = 0) -> Any:
        """Run one command on the run; its JSON result."""
        done = subprocess.run(
            self._argv(*words, "--json"),
            cwd=self.repository,
            env=self.environment({}),
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == expect, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def start_driver(self, credential: Mapping[str, str], *more: str) -> "subprocess.Popen[str]":
        """``run-headless --wait`` in a session of its own, as a terminal would start it."""
        log = (self.home / f"driver-{len(self._drivers) + 1}.log").open("w")
        with log:
            driver = subprocess.Popen(
                self._argv("run-headless", "--wait", *more),
                cwd=self.repository,
                env=self.environment(credential),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._drivers.append(driver)
        return driver

    def drive(self, credential: Mapping[str, str], *more: str) -> int:
        """Drive the run to its end; the exit status."""
        return self.start_driver(credential, *more).wait(timeout=_COMMAND_TIMEOUT_S)

    def narration(self) -> str:
        return "".join(path.read_text() for path in sorted(self.home.glob("driver-*.log")))

    def _argv(self, *words: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "orchestrator",
            "--run",
            RUN,
            "--root",
            str(self.store),
            *words,
        ]

    def processes(self) -> list[psutil.Process]:
        """All that runs with this batch's home: driver, shims, clients and their tools."""
        return self._processes(lambda process: True)

    def clients(self) -> list[psutil.Process]:
        return self._processes(lambda process: process.exe() == str(self._client))

    def _processes(self, fits: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            # Any look at a process may be the one that finds it gone.
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                is_ours = process.environ().get("HOME") == str(self.home)
                if is_ours and process.status() != psutil.STATUS_ZOMBIE and fits(process):
                    found.append(process)
        return found

    def _end_processes(self) -> None:
        for driver in self._drivers:
            driver.kill()
            driver.wait()
        while left := self.processes():
            for process in left:
                process.kill()
            psutil.wait_procs(left, timeout=5)

    # -- what it left -----------------------------------------------------------------------

    def events(self, *types: str) -> list[dict[str, Any]]:
        """The journal's lines of these types; of all, where none is named."""
        (path,) = self.store.rglob("events.jsonl")
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        return [line for line in lines if not types or line["type"] in types]

    def recorded(self, task: str, stage: str) -> list[dict[str, Any]]:
        return [
            event
            for event in self.events("stage_recorded")
            if (event["task_id"], event["stage"]) == (task, stage)
        ]

    def status(self) -> dict[str, Any]:
        found = self.command("status")
        assert isinstance(found, dict)
        return found

    def requests(self) -> list[Request]:
        return self._api.requests
