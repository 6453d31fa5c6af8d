"""Sessions on disk, where and when the client keeps them, and what each has cost so far.

A session is in use once its transcript exists; it is resumable from then on, from any
directory.  Totals are those of the transcript's assistant lines up to its last result.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_NAME_CHARS_MAX = 200


class Usage(NamedTuple):
    """Tokens of one model, and what they cost at list prices."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cost_usd + other.cost_usd,
        )


Spent = dict[str, Usage]
"""By model."""


def add(spent: Spent, model: str, usage: Usage) -> None:
    spent[model] = spent.get(model, Usage()).plus(usage)


def config_dir(env: Mapping[str, str]) -> str:
    return env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME", "/"), ".claude")


def mangled(cwd: str) -> str:
    """A directory's name under ``projects/``: all but ASCII letters and digits become ``-``."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in cwd)
    if len(name) <= _NAME_CHARS_MAX:
        return name
    digest = 0
    for char in cwd:
        digest = (digest * 31 + ord(char)) & 0xFFFFFFFF
    return f"{name[:_NAME_CHARS_MAX]}-{digest:x}"


def transcript_path(config: str, cwd: str, session_id: str) -> str:
    return os.path.join(config, "projects", mangled(cwd), f"{session_id}.jsonl")


def find(config: str, cwd: str, session_id: str) -> str | None:
    """The transcript, in this directory's project first, then in any."""
    here = transcript_path(config, cwd, session_id)
    if os.path.exists(here):
        return here
    projects = os.path.join(config, "projects")
    if os.path.isdir(projects):
        for name in sorted(os.listdir(projects)):
            there = os.path.join(projects, name, f"{session_id}.jsonl")
            if os.path.exists(there):
                return there
    return None


class Session:
    """One conversation: its transcript, and its totals up to now."""

    def __init__(self, session_id: str, path: str | None) -> None:
        self.id = session_id
        self.path = path
        """None: not persistent."""
        self.total: Spent = {}
        self.since_result: Spent = {}
        self.calls: list[dict[str, Any]] = []
        """Who asked before, in this session: one ``{task, stage, attempt}`` per call."""

    @classmethod
    def resumed(cls, path: str, here: str, session_id: str) -> "Session":
        """``here`` is where this directory keeps it: from elsewhere it is copied."""
        if path != here:
            os.makedirs(os.path.dirname(here), exist_ok=True)
            with open(path, "rb") as source, open(here, "wb") as copy:
                copy.write(source.read())
        session = cls(session_id, here)
        for record in _records(here):
            if record.get("type") == "assistant":
                add(session.since_result, record["message"]["model"], _usage_of(record))
            elif record.get("type") == "result":
                for model, usage in session.since_result.items():
                    add(session.total, model, usage)
                session.since_result = {}
            elif record.get("type") == "user" and "rehearsalCall" in record:
                # What a call used that was killed before its result, the client forgets.
                session.since_result = {}
                session.calls.append(record["rehearsalCall"])
        session.since_result = {}
        return session

    def charge(self, model: str, usage: Usage) -> None:
        add(self.total, model, usage)
        add(self.since_result, model, usage)

    def append(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        line = json.dumps({**record, "sessionId": self.id}) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def count_start(config: str, cwd: str, key: str) -> int:
    """How often this directory has been asked for ``key``, this time included.

    Kept apart from the transcripts: a start that dies before it has one counts too.
    """
    path = os.path.join(config, "rehearsal", f"{mangled(cwd)}.starts")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+", encoding="utf-8") as starts:
        starts.write(key + "\n")
        starts.flush()
        starts.seek(0)
        return sum(line == key + "\n" for line in starts)


def _usage_of(record: dict[str, Any]) -> Usage:
    return Usage(*record["rehearsalUsage"])


def _records(path: str) -> Iterator[dict[str, Any]]:
    with open(path, "rb") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:  # torn by a kill
                continue
            if isinstance(record, dict):
                yield record
