"""Run git, so that neither a repository's settings nor the caller's environment steer it.

Invariant: no hook, editor, pager, signer, prompt or file-system monitor is started, and
every call ends within its time limit.  Light enough for the stages' own program.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.core.errors import (
    STARVED_WORDS,
    EnvironmentFault,
    Starved,
    in_full,
    is_starved,
)

TIMEOUT_S = 600.0
TERMINATE_WAIT_S = 2.0

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.pager=cat",
    "color.ui=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "rerere.enabled=false",
    "merge.conflictStyle=merge",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    # No identity made up from the machine's name: ours is given instead.
    "user.useConfigOnly=true",
)
_ARGV = ("git", *(part for setting in _SETTINGS for part in ("-c", setting)))

_KEPT_FROM_ENVIRONMENT = frozenset(
    {
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
    }
)

IDENTITY: Mapping[str, str] = {
    "GIT_AUTHOR_NAME": "orchestrator",
    "GIT_AUTHOR_EMAIL": "orchestrator@localhost",
    "GIT_COMMITTER_NAME": "orchestrator",
    "GIT_COMMITTER_EMAIL": "orchestrator@localhost",
}
"""Whose a commit is where the user has configured nobody."""


class GitFault(EnvironmentFault):
    """git did not do what it was asked to; the text is its own complaint."""

    def __init__(self, what: str, where: str, status: int, stderr: str) -> None:
        self.status = status
        self.stderr = stderr
        super().__init__(f"git {what} failed in {where}: {_complaint(stderr) or f'exit {status}'}")


class GitStopped(EnvironmentFault):
    """The caller gave up while git ran."""


class Answer(NamedTuple):
    status: int
    out: bytes
    stderr: str


class Running:
    """The git process of one caller.  stop(), from another thread, ends it and lets none begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def start(
        self, args: Sequence[str], cwd: str, env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self.stopped:
                raise GitStopped(f"git {_named(args)} was not started")
            self._process = subprocess.Popen(
                (*_ARGV, *args),
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,  # a Ctrl-C on the terminal is not for it
            )
            return self._process

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._process is not None and self._process.poll() is None:
                # On SIGTERM git removes its lock files; its filters are in its group.
                os.killpg(self._process.pid, signal.SIGTERM)


class Git:
    """git in one directory; with ``git_dir``, ``cwd`` is its worktree, whatever ``.git`` says."""

    def __init__(
        self,
        cwd: str,
        *,
        git_dir: str | None = None,
        index: str | None = None,
        running: Running | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.cwd = cwd
        self._running = running or Running()
        self._timeout_s = timeout_s
        self._env = _environment()
        if git_dir is not None:
            self._env |= {"GIT_DIR": git_dir, "GIT_WORK_TREE": cwd}
        if index is not None:
            self._env["GIT_INDEX_FILE"] = index

    def __call__(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> bytes:
        """Its standard output.  Raises GitFault where it exits other than 0."""
        answer = self.ask(*args, stdin=stdin, env=env)
        if answer.status:
            raise GitFault(_named(args), self.cwd, answer.status, answer.stderr)
        return answer.out

    def line(self, *args: str, stdin: bytes = b"") -> str:
        return os.fsdecode(self(*args, stdin=stdin).rstrip(b"\n"))

    def head(self, *args: str, bytes_max: int) -> tuple[bytes, bool]:
        """The beginning of its standard output, and whether there is more; then it is ended."""
        process = self._start(args, {})
        assert process.stdout is not None
        with process:
            out = process.stdout.read(bytes_max + 1)
            if len(out) > bytes_max:
                os.killpg(process.pid, signal.SIGTERM)
                return out[:bytes_max], True
            _, err = process.communicate()
        if self._running.stopped:
            raise GitStopped(f"git {_named(args)} was stopped")
        if process.returncode:
            complaint = err.decode("utf-8", "replace")
            _raise_if_starved(args, self.cwd, complaint)
            raise GitFault(_named(args), self.cwd, process.returncode, complaint)
        return out, False

    def ask(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
        """Run git where a failure is one of the answers."""
        process = self._start(args, env or {})
        try:
            out, err = process.communicate(stdin, timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            raise EnvironmentFault(
                f"git {_named(args)} took more than {self._timeout_s:g} s in {self.cwd}: it was"
                " ended; see what its disk or its filters wait for"
            ) from None
        if self._running.stopped:
            raise GitStopped(f"git {_named(args)} was stopped")
        answer = Answer(process.returncode, out, err.decode("utf-8", "replace"))
        if answer.status:
            _raise_if_starved(args, self.cwd, answer.stderr)
        return answer

    def _start(self, args: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return self._running.start(args, self.cwd, {**self._env, **env})
        except FileNotFoundError:
            if os.path.isdir(self.cwd):
                raise EnvironmentFault("git is not on PATH: install git") from None
            raise EnvironmentFault(f"{self.cwd} does not exist") from None
        except NotADirectoryError:
            raise EnvironmentFault(f"{self.cwd} is not a directory") from None
        except OSError as fault:
            if is_starved(fault):
                raise Starved(in_full(fault, f"git {_named(args)} cannot be started")) from fault
            raise


def _raise_if_starved(args: Sequence[str], where: str, stderr: str) -> None:
    """It was started, and could not start what it needs."""
    if any(words in stderr for words in STARVED_WORDS):
        raise Starved(f"git {_named(args)} failed in {where}: {_complaint(stderr)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=TERMINATE_WAIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT_FROM_ENVIRONMENT
    }
    return kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": ":",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def identity(git: Git) -> Mapping[str, str]:
    """What to add to the environment of a command that commits: nothing, or our identity."""
    return {} if git.ask("var", "GIT_COMMITTER_IDENT").status == 0 else IDENTITY


def _named(args: Sequence[str]) -> str:
    return " ".join(args[:2]) if args[0] == "worktree" else args[0]


def _complaint(stderr: str) -> str:
    """What git says is wrong, as one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    serious = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return "; ".join((serious or lines)[:3])[:600]


def shown(name: bytes) -> str:
    """A file's name as JSON and a person can have it."""
    return name.decode("utf-8", "backslashreplace")
