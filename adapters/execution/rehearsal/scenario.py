"""The scenario: what the scripted model does, per task, stage, attempt and start.

The first ``[[call]]`` of the file that fits is the one that is played; where none fits, the
stage's default is.  Keys a scenario does not know are errors: it is our own file.
"""

import json
import os
import re
import zlib
from typing import Any, NamedTuple

from adapters.execution.rehearsal.account import Account
from adapters.execution.rehearsal.sessions import Usage
from orchestrator.given_file import DATA_BYTES_MAX, read_given


class ScenarioError(Exception):
    """What is wrong in which file, for a person."""


class Who(NamedTuple):
    """Which call of which run this is."""

    task: str
    stage: str
    attempt: int | None


class Step(NamedTuple):
    """One thing the model does with a tool.  ``kind`` is the tool's name."""

    kind: str
    input: dict[str, Any]


class Fault(NamedTuple):
    name: str
    params: dict[str, Any]


class Call(NamedTuple):
    steps: tuple[Step, ...] = ()
    say: str = ""
    last_words: str = ""
    output: Any = None
    tokens: Usage | None = None
    """Of the whole call; shared out over its turns."""
    duration_s: float = 0.0
    """Thinking time, shared out over its turns; commands take what they take."""
    faults: tuple[Fault, ...] = ()


class Scenario(NamedTuple):
    calls: tuple[dict[str, Any], ...] = ()
    account: Account | None = None
    transcript_after_s: float = 0.02
    """How long after its start a session is written down."""
    duration_s: float = 0.0
    """Thinking time of a call that does not say."""
    about: str = ""
    folder: str = "."
    """Where the files that steps name are."""

    def call(self, who: Who, start: int) -> Call:
        for number, entry in enumerate(self.calls, 1):
            if _fits(entry, who, start) and _drawn(entry, number, who):
                return self._read(entry, f"call {number}", who)
        return self._read({}, "default", who)

    def _read(self, entry: dict[str, Any], where: str, who: Who) -> Call:
        steps = tuple(
            step for item in entry.get("do", ()) for step in _steps(item, where, self.folder)
        )
        if "do" not in entry and who.stage == "implement":
            steps = (_default_change(who),)
        tokens = entry.get("tokens")
        return Call(
            steps=steps,
            say=entry.get("say", ""),
            last_words=entry.get("last_words", ""),
            output=entry["output"] if "output" in entry else _default_output(who, steps),
            tokens=None if tokens is None else Usage(**_tokens(tokens, where)),
            duration_s=entry.get("duration_s", self.duration_s),
            faults=_faults(entry.get("fault"), where),
        )

    def faults(self) -> tuple[Fault, ...]:
        """All that any call asks for.  Raises ScenarioError for one that is misshapen."""
        calls = enumerate(self.calls, 1)
        return tuple(f for n, call in calls for f in _faults(call.get("fault"), f"call {n}"))


_TOP = {"schema", "about", "account", "call", "transcript_after_s", "duration_s"}
_CALL = {
    *("task", "stage", "attempt", "start", "share"),
    *("do", "say", "last_words", "output", "tokens", "duration_s", "fault"),
}


def load(path: str | None) -> Scenario:
    """TOML, or JSON of the same shape.  None: every stage does its default."""
    if path is None:
        return Scenario()
    try:
        raw = read_given(path, DATA_BYTES_MAX)
        data = json.loads(raw) if path.endswith(".json") else _toml(raw.decode())
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    try:
        _known(data, _TOP, "the scenario")
        for number, call in enumerate(data.get("call", ()), 1):
            _known(call, _CALL, f"call {number}")
        account = data.get("account")
        return Scenario(
            calls=tuple(data.get("call", ())),
            account=None if account is None else Account(**account),
            about=data.get("about", ""),
            transcript_after_s=data.get("transcript_after_s", 0.02),
            duration_s=data.get("duration_s", 0.0),
            folder=os.path.dirname(os.path.abspath(path)),
        )
    except (ScenarioError, TypeError) as error:
        raise ScenarioError(f"{path}: {error}") from None


def who_asks(prompt: str) -> Who | None:
    """Read the marker lines ``Task: T1``, ``Stage: implement``, ``Attempt: 2`` of a prompt.

    They may be decorated (``- **Task:** `T1```); the first of each kind counts, and quoted
    lines do not, so that an issue's text cannot pass for them.
    """
    task, stage, attempt = (_marker(prompt, name) for name in ("task", "stage", "attempt"))
    if not task or not stage:
        return None
    number = re.match(r"\d+", attempt)
    return Who(task, stage.lower(), int(number[0]) if number else None)


def _marker(prompt: str, name: str) -> str:
    found = re.search(rf"^[ \t*#-]*{name}[ *]*:(.*)$", prompt, re.IGNORECASE | re.MULTILINE)
    return found[1].strip(" \t*`\"'\r") if found else ""


def _fits(entry: dict[str, Any], who: Who, start: int) -> bool:
    return (
        entry.get("task", "*") in ("*", who.task)
        and entry.get("stage", "*") in ("*", who.stage)
        and entry.get("attempt", who.attempt) == who.attempt
        and entry.get("start", start) == start
    )


def _drawn(entry: dict[str, Any], number: int, who: Who) -> bool:
    """``share = 0.25``: every fourth attempt, and the same ones each time."""
    if "share" not in entry:
        return True
    drawn = zlib.crc32(f"{number} {who.task} {who.stage} {who.attempt}".encode()) % 1000
    return bool(drawn < 1000 * entry["share"])


def _steps(item: dict[str, Any], where: str, folder: str) -> tuple[Step, ...]:
    """``{write, text}``, ``{edit, old, new}``, ``{run}``, ``{read}``, ``{overlay}``."""
    match sorted(item):
        case ["text", "write"]:
            return (Step("Write", {"file_path": item["write"], "content": item["text"]}),)
        case ["edit", "new", "old"]:
            change = {"old_string": item["old"], "new_string": item["new"]}
            return (Step("Edit", {"file_path": item["edit"], **change}),)
        case ["run"]:
            return (Step("Bash", {"command": item["run"], "description": "Run a command"}),)
        case ["read"]:
            return (Step("Read", {"file_path": item["read"]}),)
        case ["overlay"]:
            return _overlay(os.path.join(folder, item["overlay"]), where)
        case keys:
            raise ScenarioError(
                f"{where}: a step has the keys {', '.join(keys) or 'none'}; known are write+text,"
                " edit+old+new, run, read, overlay"
            )


def _overlay(root: str, where: str) -> tuple[Step, ...]:
    """Write every file below a directory at its place in the worktree.

    ``x.py-tpl`` becomes ``x.py``: named so, no tool takes it for this project's code.
    """
    if not os.path.isdir(root):
        raise ScenarioError(f"{where}: there is no directory {root} to overlay")
    steps = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            try:
                content = read_given(path, DATA_BYTES_MAX).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise ScenarioError(f"{where}: {path} is no text to overlay: {error}") from None
            inside = os.path.relpath(path, root).removesuffix("-tpl")
            steps.append(Step("Write", {"file_path": inside, "content": content}))
    return tuple(steps)


def _tokens(tokens: dict[str, Any], where: str) -> dict[str, int]:
    names = ("input", "output", "cache_read", "cache_write")
    _known(tokens, set(names), f"{where}, tokens")
    return {f"{name}_tokens": int(tokens.get(name, 0)) for name in names}


def _faults(value: Any, where: str) -> tuple[Fault, ...]:
    if value is None:
        return ()
    found = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            found.append(Fault(item, {}))
        elif isinstance(item, dict) and "name" in item:
            found.append(Fault(item["name"], {k: v for k, v in item.items() if k != "name"}))
        else:
            raise ScenarioError(f"{where}: fault is a name, a table with a name, or a list of them")
    return tuple(found)


def _default_change(who: Who) -> Step:
    """A plain text file at the top: no build tool takes it for a package, nor a linter for code."""
    slug = "".join(c if c.isalnum() else "-" for c in who.task).strip("-") or "task"
    text = f"Task {who.task}, attempt {who.attempt or 1}: changed by the rehearsal agent.\n"
    return Step("Write", {"file_path": f"REHEARSAL-{slug}.txt", "content": text})


def _default_output(who: Who, steps: tuple[Step, ...]) -> Any:
    match who.stage:
        case "scope":
            return {"feasible": True, "plan": [f"Do what {who.task} asks."], "risks": []}
        case "implement":
            changed = {s.input["file_path"] for s in steps if s.kind in ("Write", "Edit")}
            return {
                "summary": f"Did what {who.task} asks.",
                "files_changed": sorted(changed),
                "notes": "",
            }
        case "review":
            return {"approved": True, "issues": [], "non_blocking": []}
        case _:
            return None


def _known(table: dict[str, Any], keys: set[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ScenarioError(f"{where}: unknown key {key!r}; known: {', '.join(sorted(keys))}")


def _toml(text: str) -> dict[str, Any]:
    # Here, because a JSON scenario starts without it, some milliseconds faster.
    import tomllib

    return tomllib.loads(text)
