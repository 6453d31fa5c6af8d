from pathlib import Path

import pytest

from adapters.execution.claude.session import is_resumable, transcripts

ID = "aaaaaaaa-0000-4000-8000-000000000001"
MESSAGE = b'{"parentUuid":null,"type":"user","message":{"role":"user","content":"do it"}}\n'
QUEUED = b'{"type":"queue-operation","operation":"enqueue","content":"do it"}\n'


def keep(config: Path, content: bytes, directory: str = "-srv-worktree") -> None:
    path = config / "projects" / directory / f"{ID}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("content", "resumable"),
    [
        (QUEUED + MESSAGE, True),
        (MESSAGE, True),
        (QUEUED, False),
        (b'{"type":"summary","summary":"x"}\n', False),
        (QUEUED + MESSAGE[:-10], False),
        (MESSAGE[:-1], False),
        (b"\x00" * 500, False),
        (b"not json\n[1]\n" + MESSAGE, True),
        (b"", False),
    ],
)
def test_transcript_with_a_message_is_resumable(
    tmp_path: Path, content: bytes, resumable: bool
) -> None:
    keep(tmp_path, content)
    assert is_resumable({"CLAUDE_CONFIG_DIR": str(tmp_path)}, ID) is resumable


def test_transcript_of_any_directory_counts(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert not is_resumable(env, ID)
    keep(tmp_path / ".claude", QUEUED, "-srv-a")
    keep(tmp_path / ".claude", MESSAGE, "-srv-b")
    assert is_resumable(env, ID)
    assert len(transcripts(env, ID)) == 2


@pytest.mark.parametrize("session_id", ["", "*", "../x", "**", "/etc/passwd", "a" * 300])
def test_id_that_is_none(tmp_path: Path, session_id: str) -> None:
    keep(tmp_path, MESSAGE)
    assert transcripts({"CLAUDE_CONFIG_DIR": str(tmp_path)}, session_id) == []
