"""Whose account it is, and who pays: by how the client is logged in."""

from pathlib import Path

import pytest

from adapters.execution.claude.account import account_name
from adapters.execution.claude.billing import another_source, billing_of
from adapters.execution.claude.command import argv_of
from adapters.execution.claude.limits import window_named
from orchestrator.core.settings import AgentSettings
from tests.unit.claude.test_lane import work

SECRET = "sk-ant-oat01-0123456789abcdef"
HOME = {"HOME": "/home/ann"}


def name(agent: AgentSettings | None = None, token: str = "", **environ: str) -> str:
    return account_name(agent or AgentSettings(), {**HOME, **environ}, oauth_token=token)


def test_the_usual_login_is_called_claude() -> None:
    assert name() == "claude"
    assert name(CLAUDE_CONFIG_DIR="/home/ann/.claude") == "claude"


def test_a_name_that_is_given_goes_first() -> None:
    assert name(AgentSettings(account="work"), token=SECRET) == "work"
    assert name(AgentSettings(account="../../etc")).startswith("account-")


def test_another_login_has_another_name(tmp_path: Path) -> None:
    elsewhere = name(CLAUDE_CONFIG_DIR=str(tmp_path))
    assert elsewhere.startswith("login-")
    assert elsewhere == name(CLAUDE_CONFIG_DIR=str(tmp_path / "x" / ".."))
    assert elsewhere != name(CLAUDE_CONFIG_DIR="/else")


def test_a_token_is_told_from_others_and_not_told() -> None:
    by_file, by_name = name(token=SECRET), name(CLAUDE_CODE_OAUTH_TOKEN=SECRET)
    assert by_file == by_name != name(token=SECRET + "x")
    assert by_file.startswith("token-")
    assert not any(part in by_file for part in (SECRET, SECRET[-6:], SECRET[:6]))


def test_a_key_counts_where_it_is_handed_on() -> None:
    key = {"ANTHROPIC_API_KEY": "sk-ant-api03-0123456789"}
    environ = {**HOME, **key}
    assert account_name(AgentSettings(), environ, oauth_token="") == "claude"
    handing_on = AgentSettings(pass_env=("ANTHROPIC_API_KEY",))
    assert account_name(handing_on, environ, oauth_token="").startswith("key-")


@pytest.mark.parametrize(
    ("agent", "env", "billing"),
    [
        (AgentSettings(), {}, "subscription"),
        (AgentSettings(), {"ANTHROPIC_API_KEY": "k"}, "api_key"),
        (AgentSettings(billing="api_key"), {}, "api_key"),
        (AgentSettings(billing="subscription"), {"ANTHROPIC_API_KEY": "k"}, "subscription"),
    ],
)
def test_who_is_to_pay(agent: AgentSettings, env: dict[str, str], billing: str) -> None:
    assert billing_of(agent, env) == billing


def test_every_source_but_a_subscription_is_a_key() -> None:
    sources = ("ANTHROPIC_API_KEY", "apiKeyHelper", "/login managed key", "user", "temporary")
    assert all(another_source(source, "subscription") for source in sources)
    assert not any(another_source(source, "api_key") for source in sources)
    assert not another_source("none", "subscription")
    assert not another_source("oauth", "subscription")
    assert not another_source("", "subscription")
    assert another_source("none", "api_key")


def test_the_models_to_fall_back_to_are_one_word() -> None:
    argv = argv_of(work(), AgentSettings(fallback_models=("opus", "haiku")), resume=False)
    assert argv[argv.index("--fallback-model") + 1] == "opus,haiku"
    assert "--fallback-model" not in argv_of(work(), AgentSettings(), resume=False)


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ("You've hit your Opus limit · resets Mon 12:00am", "seven_day_opus"),
        ("You\u2019ve reached your sonnet limit", "seven_day_sonnet"),
        ("You've hit your weekly limit · resets Mon 12:00am", ""),
        ("You've hit your 5-hour limit · resets 3pm", ""),
    ],
)
def test_a_limit_of_one_model_in_words(said: str, window: str) -> None:
    assert window_named(said) == window
