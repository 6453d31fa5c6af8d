"""Runs the real client against a loopback API, in an environment that holds nothing of this
machine's: an empty home, a dummy key.

Every process that is started here is ended by its pid when the Client closes.
"""

import contextlib
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

API_KEY = {"ANTHROPIC_API_KEY": "sk-ant-dummy"}
SUBSCRIPTION = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"}
"""With this instead of a key the client believes that it runs on a subscription."""

_RUN_TIMEOUT_S = 60.0
_WAIT_POLL_S = 0.02


def new_session() -> str:
    return str(uuid.uuid4())


def base_environment(home: Path, url: str) -> dict[str, str]:
    """What the client needs to run here, and nothing that would let it reach further."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


@dataclass(frozen=True)
class Ran:
    """What one run of the client left."""

    exit: int
    """As subprocess says it: negative for a signal."""
    lines: tuple[Mapping[str, Any], ...]
    stderr: str
    duration_s: float

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        return [line for line in self.lines if line.get("type") == kind]

    @property
    def init(self) -> Mapping[str, Any]:
        return next(line for line in self.lines if line.get("subtype") == "init")

    @property
    def result(self) -> Mapping[str, Any]:
        """The last result line."""
        return self.of_type("result")[-1]


class Child:
    """A client that is running."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdout: Path, stderr: Path) -> None:
        self.process = process
        self.stdout = stdout
        self._stderr = stderr
        self._started = time.monotonic()
        self._noted: list[psutil.Process] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def note_descendants(self) -> list[psutil.Process]:
        """The descendants of this moment; they are ended when the Client closes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid).children(recursive=True)
            self._noted += [process for process in found if process not in self._noted]
        return list(self._noted)

    def end(self) -> None:
        """End it and all that it is known to have started."""
        self.note_descendants()
        self.process.kill()
        self.process.wait()
        for process in self._noted:
            # psutil compares the start time: a later process with this pid is left alone.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def wait(self, timeout_s: float = _RUN_TIMEOUT_S) -> Ran:
        code = self.process.wait(timeout=timeout_s)
        lines = [json.loads(line) for line in self.stdout.read_bytes().splitlines() if line]
        return Ran(
            exit=code,
            lines=tuple(lines),
            stderr=self._stderr.read_text(errors="replace"),
            duration_s=time.monotonic() - self._started,
        )


class Client:
    """A client's command with a home and a working directory of its own, talking to one API."""

    def __init__(self, command: Sequence[str], where: Path, url: str) -> None:
        self.command = tuple(command)
        self.home = where / "home"
        self.work = where / "work"
        self.url = url
        self._logs = where / "logs"
        for directory in (self.home, self.work, self._logs):
            directory.mkdir(parents=True, exist_ok=True)
        self._children: list[Child] = []

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for child in self._children:
            child.end()

    def start(
        self,
        *args: str,
        prompt: str | bytes,
        cwd: Path | None = None,
        credential: Mapping[str, str] = API_KEY,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        stdin = self._logs / f"{len(self._children) + 1}.prompt"
        stdin.write_bytes(prompt.encode() if isinstance(prompt, str) else prompt)
        argv = [*self.command, "-p", "--output-format", "stream-json", "--verbose", *args]
        environment = {**base_environment(self.home, self.url), **credential, **(env or {})}
        return self.spawn(argv, environment, stdin, cwd or self.work)

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stdin: Path, cwd: Path) -> Child:
        """Start any command as a driver would: files for its streams, a session of its own."""
        number = len(self._children) + 1
        stdout, stderr = self._logs / f"{number}.stdout", self._logs / f"{number}.stderr"
        with stdin.open("rb") as given, stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        child = Child(process, stdout, stderr)
        self._children.append(child)
        return child

    def run(
        self,
        *args: str,
        prompt: str | bytes,
        cwd: Path | None = None,
        credential: Mapping[str, str] = API_KEY,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        child = self.start(*args, prompt=prompt, cwd=cwd, credential=credential, env=env)
        return child.wait()

    def transcripts(self, session: str) -> list[Path]:
        return sorted(self.home.glob(f".claude/projects/*/{session}.jsonl"))


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """For what a real process does in its own time.  Raises TimeoutError naming ``what``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(_WAIT_POLL_S)


def schema(*required: str, **properties: str) -> str:
    """A flat JSON schema: ``schema("ok", ok="boolean")``."""
    value = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return json.dumps(value)
