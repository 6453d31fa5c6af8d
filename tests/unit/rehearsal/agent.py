"""Run the rehearsal agent as a driver would, and look at what it said."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from adapters.execution import rehearsal

SESSION = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
STREAM = ("-p", "--output-format", "stream-json", "--verbose")
DONE_WITHIN_S = 30


class Played(NamedTuple):
    status: int
    stdout: bytes
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        (found,) = (line for line in self.lines if line["type"] == "result")
        return found

    def of_type(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == name]


class Agent:
    """In a directory of its own, with its own config directory."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "worktree"
        self.cwd.mkdir()
        self.config = folder / "config"
        self.scenario = folder / "scenario.toml"
        self.scenario.write_text("")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "IS_SANDBOX": "1"}
        self.env["CLAUDE_CONFIG_DIR"] = str(self.config)

    def argv(self, *arguments: str) -> list[str]:
        return [*rehearsal.command(str(self.scenario)), *STREAM, *arguments]

    def play(self, prompt: str, *arguments: str, **env: str) -> Played:
        done = subprocess.run(
            self.argv(*arguments),
            input=prompt.encode(),
            cwd=self.cwd,
            env=self.env | env,
            capture_output=True,
            timeout=DONE_WITHIN_S,
            check=False,
        )
        return Played(done.returncode, done.stdout, done.stderr.decode())

    def start(self, prompt: str, *arguments: str) -> subprocess.Popen[bytes]:
        """For a test that ends it itself; its first line is there when this returns."""
        given = self.cwd.parent / "prompt.txt"
        given.write_text(prompt)
        with given.open("rb") as stdin:
            return subprocess.Popen(
                self.argv(*arguments),
                stdin=stdin,
                cwd=self.cwd,
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def transcript(self, session_id: str) -> Path | None:
        found = list(self.config.glob(f"projects/*/{session_id}.jsonl"))
        return found[0] if found else None


def asks(task: str = "T1", stage: str = "implement", attempt: int = 1) -> str:
    """A prompt's first lines, as core.prompts writes them."""
    return f"Task: {task}\nStage: {stage}\nAttempt: {attempt}\n\nDo it.\n"
