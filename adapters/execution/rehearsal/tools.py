"""The model's tools, really used: files are written, commands run.

A command runs in a session of its own, as the client's do: killing the agent's process
group leaves it running.
"""

import contextlib
import os
import re
import signal
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

_OUTPUT_CHARS_MAX = 30_000
_EDITS = ("Edit", "Write", "NotebookEdit")
_READS = ("Glob", "Grep", "Read")
_ENDINGS = (signal.SIGINT, signal.SIGTERM)


class ToolResult(NamedTuple):
    content: str
    is_error: bool = False
    raw: Any = None


class Tools:
    """What one call may use, and where."""

    def __init__(
        self,
        cwd: str,
        *,
        available: tuple[str, ...],
        allowed: tuple[str, ...],
        disallowed: tuple[str, ...],
        permission_mode: str,
        env: Mapping[str, str],
    ) -> None:
        self.cwd = cwd
        self.available = available
        self._allowed = allowed
        self._disallowed = disallowed
        self._mode = permission_mode
        self._env = dict(env)
        self._running: int | None = None

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        """Why this use is not permitted; None: it is.  Nothing ever waits for a person."""
        if name not in self.available:
            text = f"<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
            return ToolResult(text, True, f"Error: No such tool available: {name}")
        subject = str(arguments.get("command", ""))
        if _ruled(self._disallowed, name, subject):
            return _denied(name)
        free = (
            self._mode == "bypassPermissions"
            or name in _READS
            or (name in _EDITS and self._mode == "acceptEdits")
            or _ruled(self._allowed, name, subject)
        )
        return None if free else _denied(name)

    def use(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        try:
            match name:
                case "Bash":
                    return self._bash(arguments["command"])
                case "Write":
                    return self._write(arguments["file_path"], arguments["content"])
                case "Edit":
                    return self._edit(
                        arguments["file_path"], arguments["old_string"], arguments["new_string"]
                    )
                case _:
                    return self._read(arguments["file_path"])
        except OSError as error:
            return ToolResult(f"{error.strerror}: {error.filename}", True, f"Error: {error}")

    def kill_running(self) -> None:
        """What the client does with a command when it is told to end."""
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.killpg(self._running, signal.SIGKILL)
                os.waitpid(self._running, 0)

    def _bash(self, command: str) -> ToolResult:
        import subprocess  # here: a call that runs nothing starts without it

        # Output goes to a file: a grandchild that keeps it open holds nobody up.
        with _nameless_file(self._env.get("TMPDIR", "/tmp")) as output:
            # Told to end before it knows whom it has started, it would leave that one behind.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
            try:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    cwd=self.cwd,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS),
                )
                self._running = child.pid
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
            status = child.wait()
            self._running = None
            output.seek(0)
            text = output.read(4 * _OUTPUT_CHARS_MAX).decode(errors="replace")
        text = text[:_OUTPUT_CHARS_MAX].rstrip("\n")
        if status != 0:
            code = status if status > 0 else 128 - status
            content = f"Exit code {code}" + (f"\n{text}" if text else "")
            return ToolResult(content, True, f"Error: {content}")
        raw = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        return ToolResult(text or "(Bash completed with no output)", raw=raw)

    def _write(self, path: str, content: str) -> ToolResult:
        target = os.path.join(self.cwd, path)
        kind = "update" if os.path.exists(target) else "create"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(content)
        return ToolResult(
            f"File written successfully at: {target}",
            raw={"type": kind, "filePath": target, "content": content},
        )

    def _edit(self, path: str, old: str, new: str) -> ToolResult:
        target = os.path.join(self.cwd, path)
        with open(target, encoding="utf-8") as file:
            before = file.read()
        if before.count(old) != 1:
            found = before.count(old)
            text = f"String to replace found {found} times in file, not once.\nString: {old}"
            return ToolResult(f"<tool_use_error>{text}</tool_use_error>", True, f"Error: {text}")
        with open(target, "w", encoding="utf-8") as file:
            file.write(before.replace(old, new))
        return ToolResult(
            f"The file {target} has been updated successfully.",
            raw={"filePath": target, "oldString": old, "newString": new},
        )

    def _read(self, path: str) -> ToolResult:
        target = os.path.join(self.cwd, path)
        with open(target, encoding="utf-8", errors="replace") as file:
            lines = file.read(_OUTPUT_CHARS_MAX).splitlines()
        numbered = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))
        return ToolResult(numbered, raw={"type": "text", "file": {"filePath": target}})


def _ruled(rules: tuple[str, ...], name: str, subject: str) -> bool:
    """``Edit`` fits every use of Edit; in ``Bash(git -* push)`` a star is any text."""
    for rule in rules:
        tool, bracket, pattern = rule.partition("(")
        if tool != name:
            continue
        if not bracket:
            return True
        if _fits(pattern.removesuffix(")"), subject):
            return True
    return False


def _fits(pattern: str, command: str) -> bool:
    """``git *`` and ``git:*`` fit ``git`` alone, too; a pattern with more stars does not."""
    if pattern.endswith(":*"):
        pattern = f"{pattern[:-2]} *"
    if pattern.count("*") == 1 and pattern == f"{command} *":
        return True
    stars = ".*".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(stars, command, re.DOTALL) is not None


def _denied(name: str) -> ToolResult:
    text = f"Permission to use {name} has been denied: nobody is there to ask."
    return ToolResult(text, True, f"Error: {text}")


def _nameless_file(folder: str) -> IO[bytes]:
    """What tempfile.TemporaryFile() does; importing that costs a third of the start-up."""
    path = os.path.join(folder, f"rehearsal-{os.getpid()}-{os.urandom(6).hex()}")
    file = open(path, "x+b")  # noqa: SIM115 - the caller closes it
    os.unlink(path)
    return file
