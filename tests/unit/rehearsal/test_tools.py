import os
from pathlib import Path

import pytest

from adapters.execution.rehearsal.tools import Tools


def tools(cwd: Path, mode: str = "acceptEdits", *, allowed: tuple[str, ...] = ()) -> Tools:
    return Tools(
        str(cwd),
        available=("Bash", "Edit", "Read", "Write"),
        allowed=allowed,
        disallowed=("Bash(git push *)", "Bash(git -* push)"),
        permission_mode=mode,
        env=os.environ,
    )


@pytest.mark.parametrize(
    ("mode", "name", "command", "free"),
    [
        ("acceptEdits", "Write", "", True),
        ("acceptEdits", "Bash", "rm -rf x", False),
        ("acceptEdits", "Bash", "git status", True),
        ("acceptEdits", "Bash", "gitk", False),
        ("default", "Write", "", False),
        ("default", "Read", "", True),
        ("bypassPermissions", "Bash", "rm -rf x", True),
        ("bypassPermissions", "Bash", "git push origin", False),
        ("bypassPermissions", "Bash", "git push", False),
        ("bypassPermissions", "Bash", "git pushes", True),
        ("bypassPermissions", "Bash", "git -C . push", False),
        ("bypassPermissions", "Bash", "git -C . pushes", True),
        ("bypassPermissions", "Bash", "git stash push", True),
    ],
)
def test_what_needs_no_person(
    tmp_path: Path, mode: str, name: str, command: str, free: bool
) -> None:
    refusal = tools(tmp_path, mode, allowed=("Bash(git *)",)).refusal(name, {"command": command})
    assert (refusal is None) is free


def test_a_tool_that_is_not_there_cannot_be_used(tmp_path: Path) -> None:
    refusal = tools(tmp_path, "bypassPermissions").refusal("WebFetch", {})
    assert refusal is not None
    assert "No such tool available: WebFetch" in refusal.content


def test_writes_and_edits_files(tmp_path: Path) -> None:
    hands = tools(tmp_path)
    assert not hands.use("Write", {"file_path": "a/b.txt", "content": "one two"}).is_error
    change = {"file_path": "a/b.txt", "old_string": "two", "new_string": "three"}
    assert not hands.use("Edit", change).is_error
    assert (tmp_path / "a" / "b.txt").read_text() == "one three"
    assert hands.use("Edit", change).is_error
    assert hands.use("Read", {"file_path": "nowhere"}).is_error


def test_a_command_runs_in_a_session_of_its_own(tmp_path: Path) -> None:
    done = tools(tmp_path).use("Bash", {"command": "ps -o sid= -p $$; pwd"})
    session, where = done.content.split()
    assert int(session) != os.getsid(0)
    assert Path(where).resolve() == tmp_path.resolve()


def test_a_command_that_fails_says_its_status(tmp_path: Path) -> None:
    done = tools(tmp_path).use("Bash", {"command": "echo no; exit 3"})
    assert (done.is_error, done.content) == (True, "Exit code 3\nno")


def test_a_background_process_does_not_hold_the_command_up(tmp_path: Path) -> None:
    done = tools(tmp_path).use("Bash", {"command": "sleep 20 & echo $!"})
    os.kill(int(done.content), 9)
