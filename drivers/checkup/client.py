"""The agent's client: is it there, is it logged in, what may it do?  Nothing here spends.

``claude auth status`` is not used: with a stored login it asks the network about the account.
Whether there is a login is told by what would be used for it being there, never by its content.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from adapters.execution.claude.billing import API_KEY, SUBSCRIPTION, remedy
from adapters.execution.claude.environment import child_environment, read_oauth_token
from drivers.checkup.check import Check, fail, ok, output_of, warn
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.settings import AgentSettings, Project

VERSION_MIN = (2, 0)
VERSION_TRIED = "2.1.332"
INSTALL = "npm install -g @anthropic-ai/claude-code"


def is_claude(agent: AgentSettings) -> bool:
    """The client itself, and no stand-in or wrapper."""
    return Path(agent.command[0]).name == "claude"


def version(agent: AgentSettings, root: Path, environ: Mapping[str, str]) -> Check:
    program = agent.command[0]
    env = child_environment(agent, environ, values=agent.env)
    path = shutil.which(root / program if "/" in program else program, path=env.get("PATH"))
    if path is None:
        mend = f"{INSTALL}, or name it in [agent] command" if is_claude(agent) else "install it"
        return fail("client", f"{program} is not on PATH", mend=mend)
    works, said = output_of([path, *agent.command[1:], "--version"], env=env)
    if not works:
        return fail("client", f"{program} --version: {said}", mend=f"reinstall it: {INSTALL}")
    found = re.search(r"(\d+)\.(\d+)\.\d+", said)
    if found is None:
        mend = "see that [agent] command is a claude client"
        return warn("client", f"{path}: {said[:60]!r} is no version", mend=mend)
    if (int(found[1]), int(found[2])) < VERSION_MIN:
        return warn("client", f"{said} ({path})", mend=f"{INSTALL}; {VERSION_TRIED} is tried")
    return ok("client", f"{said} ({path})")


def login(project: Project | None, agent: AgentSettings, environ: Mapping[str, str]) -> Check:
    if not is_claude(agent):
        return ok("login", f"not looked for: {agent.command[0]} is not claude itself")
    try:
        from_file = read_oauth_token(project) if project else ""
    except EnvironmentFault as error:
        return fail("login", str(error), mend="mend the file, or clear agent.oauth_token_file")
    env = child_environment(agent, environ, values=agent.env, oauth_token=from_file)
    key = env.get("ANTHROPIC_API_KEY")
    if agent.billing == SUBSCRIPTION and key:
        found = "[agent] billing is subscription, and ANTHROPIC_API_KEY is handed on"
        return fail("login", found, mend=f"a run would stop at once: {remedy(SUBSCRIPTION)}")
    if agent.billing == API_KEY and not key and not _may_have_a_key(env):
        found = "[agent] billing is api_key, and no key is handed on"
        return fail("login", found, mend=f"a run would stop at once: {remedy(API_KEY)}")
    if agent.billing == API_KEY and key:
        return ok("login", "by ANTHROPIC_API_KEY, as [agent] billing says")
    if key:
        return warn(
            "login",
            "ANTHROPIC_API_KEY is handed on: every call is billed to it, not to a subscription",
            mend="take it out of [agent] pass_env if a subscription is meant; if it is not, say"
            ' so: billing = "api_key"',
        )
    if from_file:
        return ok("login", "by agent.oauth_token_file")
    if env.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return ok("login", "by CLAUDE_CODE_OAUTH_TOKEN")
    if _is_stored(env):
        return ok("login", "stored; `claude auth status` asks whether it is still good")
    found = "none found"
    if environ.get("ANTHROPIC_API_KEY"):
        found += "; ANTHROPIC_API_KEY is set, and handed on only if [agent] pass_env names it"
    return fail("login", found, mend="claude auth login; or, for a service, claude setup-token")


def _may_have_a_key(env: Mapping[str, str]) -> bool:
    """A login, or a settings file with a helper program, may hold one: only the client can tell."""
    return _is_stored(env) or (_config_directory(env) / "settings.json").is_file()


def _config_directory(env: Mapping[str, str]) -> Path:
    home = Path(env.get("HOME") or "~").expanduser()
    return Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def _is_stored(env: Mapping[str, str]) -> bool:
    if (_config_directory(env) / ".credentials.json").is_file():
        return True
    keychain = ["security", "find-generic-password", "-s", "Claude Code-credentials"]
    return sys.platform == "darwin" and output_of(keychain, env=env)[0]


def permissions(agent: AgentSettings) -> Check:
    tools = ", ".join(agent.allowed_tools) or "none"
    if agent.permission_mode != "bypassPermissions":
        return ok("permissions", f"{agent.permission_mode}; commands allowed unasked: {tools}")
    found = "bypassPermissions: the agent may run any command as this user"
    if os.geteuid() == 0 and agent.env.get("IS_SANDBOX") != "1":
        mend = 'run as another user; or, in a throw-away container, env = {IS_SANDBOX = "1"}'
        return fail("permissions", f"{found}, which claude refuses to root", mend=mend)
    mend = "acceptEdits with allowed_tools, if this machine holds anything of value"
    return warn("permissions", found, mend=mend)
