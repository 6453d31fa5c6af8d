"""The client's command line for a work item.

The repository's own client configuration is taken as hostile: its settings could redirect the
API (an ``env`` block is honoured without trust), its hooks and MCP servers run commands before
the model does.  Its CLAUDE.md is kept.  Nothing secret, and no prompt, stands in an argument.
"""

import json
from collections.abc import Mapping

from orchestrator.core.model import Stage, WorkItem
from orchestrator.core.settings import AgentSettings

READ_ONLY_TOOLS = ("Read", "Grep", "Glob")
"""All that scope and review have: the client refuses every other tool as unknown.  A list of
what is denied would leave ways to write, above all through Bash.

The price: tools come first in a request, so implement, which resumes scope's session with other
tools, cannot read scope's prompt cache (measured: 11 of 60,000 bytes shared) and writes it anew."""

READ_ONLY_STAGES = frozenset({Stage.SCOPE, Stage.REVIEW})

LEFT_OUT_TOOLS = (
    # They leave the worktree that the task's evidence is taken from.
    "EnterWorktree",
    "ExitWorktree",
    # They act after the stage has ended, or wait for something that will not come.
    "CronCreate",
    "CronDelete",
    "CronList",
    "Monitor",
    "ScheduleWakeup",
    "Workflow",
    # They talk to other sessions of the person's, or to the person.
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "ListAgents",
    "SendMessage",
)

PUSH_RULES = ("Bash(git push *)", "Bash(git -* push)", "Bash(git -* push *)")
"""Denied to implement, in every permission mode: ``Bash(git *)`` would allow them.  The client
looks into ``cd x && git push``, but not into what a program does: this is against accident.
A rule without a bare tool's name takes no tool out of the request, so costs no prompt cache."""

_PUSH_ALLOWED = "Bash(git push"

_ALWAYS = (
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    # Only the person's own settings, not the repository's (.claude/settings*.json).
    "--setting-sources",
    "user",
    # The person's hooks are for a person's session: here they hang, recurse or block the end.
    "--settings",
    json.dumps({"disableAllHooks": True}),
    # No MCP server but those a project's agent.command adds by --mcp-config.
    "--strict-mcp-config",
    # A prompt or an issue that begins with "/" is text.
    "--disable-slash-commands",
    # What would ask a person is denied; nothing ever waits.
    "--permission-prompts",
    "none",
)


def argv_of(work: WorkItem, agent: AgentSettings, *, resume: bool) -> tuple[str, ...]:
    """The prompt goes to standard input: an argument is limited to 128 KiB."""
    argv = [*agent.command, *_ALWAYS]
    # Together with CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: reads the worktree's CLAUDE.md.
    argv.append(f"--add-dir={work.cwd}")
    if work.session_id is not None:
        argv += ["--resume" if resume else "--session-id", work.session_id]
    if work.model:
        argv += ["--model", work.model]
    if agent.fallback_models:
        argv += ["--fallback-model", ",".join(agent.fallback_models)]
    if work.effort:
        argv += ["--effort", work.effort]
    if work.max_budget_usd is not None:
        argv += ["--max-budget-usd", f"{work.max_budget_usd:.6f}"]
    if work.output_schema is not None:
        argv += ["--json-schema", _compact(work.output_schema)]
    return (*argv, *_permissions(work.stage, agent))


def _permissions(stage: Stage, agent: AgentSettings) -> tuple[str, ...]:
    # Lists are one word each, joined by "=": these options swallow the words that follow them.
    if stage in READ_ONLY_STAGES:
        return ("--permission-mode", "dontAsk", f"--tools={','.join(READ_ONLY_TOOLS)}")
    allowed = (f"--allowedTools={','.join(agent.allowed_tools)}",) if agent.allowed_tools else ()
    return (
        "--permission-mode",
        agent.permission_mode,
        *allowed,
        f"--disallowedTools={','.join([*LEFT_OUT_TOOLS, *_pushes(agent)])}",
    )


def _pushes(agent: AgentSettings) -> tuple[str, ...]:
    """What goes before every permission: so it is left out where the project names a push."""
    names_it = any(rule.startswith(_PUSH_ALLOWED) for rule in agent.allowed_tools)
    return () if names_it else PUSH_RULES


def _compact(schema: Mapping[str, object]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
