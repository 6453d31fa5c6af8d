"""Where the client keeps a session's transcript, and whether it can be resumed.

Evidence is the file alone: the client refuses ``--resume`` without a transcript that holds
a message, and ``--session-id`` with one.
"""

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.given_file import open_file

_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_SEARCH_BYTES_MAX = 32 * 1024 * 1024
"""The first message is the prompt; what stands before it is small."""


def projects_dir(env: Mapping[str, str]) -> Path:
    """The directory that holds one directory of transcripts per working directory."""
    config = env.get("CLAUDE_CONFIG_DIR")
    return Path(config) / "projects" if config else Path(env.get("HOME", "/"), ".claude/projects")


def transcripts(env: Mapping[str, str], session_id: str) -> list[Path]:
    """Every transcript of this id: a resume from another directory copies it there."""
    if not _ID.fullmatch(session_id):
        return []
    try:
        return sorted(projects_dir(env).glob(f"*/{session_id}.jsonl"))
    except OSError:
        return []


def transcript_bytes(env: Mapping[str, str], session_id: str | None) -> int:
    """Of a session and its subagents: it grows while the client works, whoever reads its stream."""
    total = 0
    for path in transcripts(env, session_id or ""):
        for part in (path, *path.with_suffix("").glob("**/*.jsonl")):
            with contextlib.suppress(OSError):
                total += part.stat().st_size
    return total


def is_resumable(env: Mapping[str, str], session_id: str) -> bool:
    return any(_holds_message(path) for path in transcripts(env, session_id))


def _holds_message(path: Path) -> bool:
    read_bytes = 0
    try:
        with open(open_file(path), "rb") as file:
            while read_bytes < _SEARCH_BYTES_MAX:
                line = file.readline(_SEARCH_BYTES_MAX)
                if not line.endswith(b"\n"):
                    return False
                read_bytes += len(line)
                if _is_message(line):
                    return True
    except OSError:
        return False
    return False


def _is_message(line: bytes) -> bool:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.get("type") in ("user", "assistant")
