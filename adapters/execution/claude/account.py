"""The name of the account that pays, from how the client is logged in.  No secret is in it.

What tells accounts apart is where the login is kept, or a hash of the token or key: 12 hex
digits of a SHA-256, from which nothing comes back.
"""

import hashlib
import os
import re
from collections.abc import Mapping

from adapters.execution.claude.billing import API_KEY, billing_of
from adapters.execution.claude.environment import child_environment
from orchestrator.core.settings import AgentSettings

DEFAULT = "claude"
HASH_CHARS = 12
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def account_name(agent: AgentSettings, environ: Mapping[str, str], *, oauth_token: str) -> str:
    """``environ`` is the driver's; ``oauth_token`` what agent.oauth_token_file holds."""
    if agent.account:
        is_a_name = _NAME.fullmatch(agent.account)
        return agent.account if is_a_name else f"account-{_hash(agent.account)}"
    env = child_environment(agent, environ, values=agent.env, oauth_token=oauth_token)
    key, token = env.get("ANTHROPIC_API_KEY"), env.get("CLAUDE_CODE_OAUTH_TOKEN")
    if key and billing_of(agent, env) == API_KEY:
        return f"key-{_hash(key)}"
    if token:
        return f"token-{_hash(token)}"
    directory = _config_directory(env)
    if directory == _config_directory({"HOME": environ.get("HOME", "")}):
        return DEFAULT
    return f"login-{_hash(directory)}"


def _config_directory(env: Mapping[str, str]) -> str:
    kept_in = env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME") or "/", ".claude")
    return os.path.realpath(kept_in)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:HASH_CHARS]
