import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.execution.claude.environment import (
    child_environment,
    read_oauth_token,
    secret_values,
)
from adapters.execution.steps.environment import for_commands
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.settings import AgentSettings, Project

DRIVER = {
    "HOME": "/home/user",
    "PATH": "/usr/bin",
    "LC_ALL": "de_DE.UTF-8",
    "TERM": "xterm",
    "ANTHROPIC_API_KEY": "sk-ant-of-the-driver",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "AWS_SECRET_ACCESS_KEY": "of-the-driver",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "of-the-launching-session",
    "CLAUDE_CODE_EFFORT_LEVEL": "low",
    "ANTHROPIC_LOG": "debug",
    "DEBUG": "1",
}


def test_only_what_is_named_reaches_the_child() -> None:
    env = child_environment(AgentSettings(), DRIVER, values={})
    assert {name for name in env if name in DRIVER} == {"HOME", "PATH", "LC_ALL", "TERM"}
    assert env["LANG"] == "C.UTF-8"
    assert env["CLAUDE_CODE_FORCE_SESSION_PERSISTENCE"] == "1"


def test_project_file_names_more() -> None:
    agent = AgentSettings(pass_env=("ANTHROPIC_API_KEY", "NOT_SET", "CLAUDECODE", "DEBUG"))
    env = child_environment(agent, DRIVER, values={"CLAUDE_CODE_MAX_RETRIES": "1", "X": "y"})
    assert env["ANTHROPIC_API_KEY"] == "sk-ant-of-the-driver"
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "1"
    assert env["X"] == "y"
    assert not {"NOT_SET", "CLAUDECODE", "DEBUG"} & set(env)


def test_token_of_a_file_is_handed_on_and_kept_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sk-ant-oat-0123456789\n")
    agent = AgentSettings(oauth_token_file="token")
    token = read_oauth_token(Project(name="p", root=str(tmp_path), agent=agent))
    env = child_environment(
        agent, {**DRIVER, "CLAUDE_CODE_OAUTH_TOKEN": "stale"}, values={}, oauth_token=token
    )
    assert env["CLAUDE_CODE_OAUTH_TOKEN"] == "sk-ant-oat-0123456789"
    assert secret_values({**env, "MY_PASSWORD": "hunter2hunter2", "X_KEY": "short"}) == {
        "sk-ant-oat-0123456789",
        "hunter2hunter2",
    }


@pytest.mark.parametrize("content", [None, b"", b"two words", b"\xff\xfe"])
def test_bad_token_file(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    project = Project(name="p", root=str(tmp_path), agent=AgentSettings(oauth_token_file="token"))
    with pytest.raises(EnvironmentFault, match="claude setup-token"):
        read_oauth_token(project)


def test_a_long_command_is_neither_cut_off_nor_sent_to_the_background() -> None:
    env = child_environment(AgentSettings(), DRIVER, values={})
    assert env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert int(env["BASH_DEFAULT_TIMEOUT_MS"]) >= 600_000
    assert int(env["BASH_MAX_TIMEOUT_MS"]) >= 1_800_000


def test_a_turn_that_was_cut_off_goes_on_only_when_it_is_told_to() -> None:
    inherited = {**DRIVER, "CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1"}
    env = child_environment(AgentSettings(), inherited, values={})
    assert not [name for name in env if "INTERRUPTED_TURN" in name]


def test_a_file_that_an_issue_names_is_not_read_into_the_prompt() -> None:
    assert child_environment(AgentSettings(), {}, values={})["CLAUDE_CODE_DISABLE_ATTACHMENTS"]


@pytest.mark.parametrize(
    "inherited",
    [
        {},
        {"LANG": "C"},
        {"LANG": "POSIX", "LC_ALL": ""},
        {"LANG": "de_DE.UTF-8", "LC_ALL": "C"},
        {"LANG": "de_DE.UTF-8", "LC_CTYPE": "de_DE.ISO-8859-1"},
        {"LANG": "de_DE.utf8"},
        {"LC_ALL": "en_US.UTF-8", "LANG": "C"},
    ],
)
def test_children_speak_utf_8_whatever_the_driver_was_started_under(
    inherited: dict[str, str],
) -> None:
    path = {"PATH": os.environ["PATH"]}
    program = "import locale, sys; print(locale.getpreferredencoding(False), sys.flags.utf8_mode)"
    for env in (
        child_environment(AgentSettings(), {**path, **inherited}, values={}),
        for_commands({**path, **inherited}, (), {}),
    ):
        assert env["PYTHONUTF8"] == "1"
        del env["PYTHONUTF8"]
        told = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        assert told.stdout.split()[0].upper().replace("-", "") == "UTF8"


def test_a_locale_of_utf_8_is_kept_and_a_project_has_the_last_word() -> None:
    env = child_environment(AgentSettings(), {"LANG": "de_DE.UTF-8"}, values={"LC_ALL": "C"})
    assert (env["LANG"], env["LC_ALL"]) == ("de_DE.UTF-8", "C")
