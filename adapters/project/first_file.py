"""Write down the first project file and task file of a repository: short, commented, valid."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from adapters.project.look import look, name_in
from adapters.project.seen import Seen
from orchestrator.core.settings import Argv, Commands

_COMMENT_COLUMN = 34
_AGENT_TASKS = ".agent-tasks.json"
_TASKS = "tasks.toml"

TASKS_TEXT = """\
# Tasks for orchestrator: one [[task]] each, and none yet.  The body is what the agent is told.
#
# [[task]]
# id = "T1"
# title = "Add a slug function"
# body = \"\"\"
# What is wanted, where, and how to see that it is done.
# \"\"\"
# depends_on = []                # ids of tasks whose branches this one builds on
# labels = []
"""


class Proposal(NamedTuple):
    """What a repository's first project file would be, and why."""

    name: str
    seen: tuple[Seen, ...]
    commands: Commands
    base: str | None
    """A branch; None: HEAD when a run is made."""
    branch_prefix: str
    tasks_path: str
    notes: tuple[str, ...]

    @property
    def project_text(self) -> str:
        return _project_text(self)


def propose(root: Path, *, current_branch: str | None, branches: Sequence[str]) -> Proposal:
    """Look at the repository at ``root``.  Its branches are arguments: nothing is run here."""
    seen = look(root)
    commands = seen[0].commands if seen else Commands()
    notes: list[str] = []
    if not commands.test:
        notes.append("no test command found: write one into [commands] test")
    if current_branch is None:
        notes.append("HEAD is on no branch: runs will start from HEAD, whatever it is then")
    prefix = "orchestrator"
    if prefix in branches:
        prefix = "orchestrated"
        notes.append(f'a branch named "orchestrator" is in the way: branch_prefix is "{prefix}"')
    others = [
        f"{other.language} ({other.because})"
        for other in seen[1:]
        if other.language != seen[0].language
    ]
    if others:
        notes.append(f"also seen, and not used: {', '.join(others)}")
    called = (name_in(root) or "", root.name, "project")
    name = next(fit for each in called if (fit := _fitting(each)))
    tasks_path = _AGENT_TASKS if (root / _AGENT_TASKS).exists() else _TASKS
    return Proposal(name, seen, commands, current_branch, prefix, tasks_path, tuple(notes))


def _fitting(name: str) -> str:
    """What of it a project may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")


def _project_text(proposal: Proposal) -> str:
    commands = proposal.commands
    said = f"from {proposal.seen[0].because}" if proposal.seen else ""
    base = _line("base", proposal.base or "main", "runs start from this branch")
    if proposal.base is None:
        base = f"# {base}"
    return "\n".join(
        [
            "# How orchestrator works on this repository.",
            "# A wrong key is named with its line; `orchestrator doctor` checks the machine.",
            "schema = 1",
            _line("name", proposal.name),
            "",
            "[tasks]",
            _line("source", "local"),
            _line("path", proposal.tasks_path, "TOML, JSON or YAML; or an .agent-tasks.json"),
            "",
            "# Each is a list of words or one string for sh, run in a task's own fresh worktree.",
            "# An empty one is not done.",
            "[commands]",
            _line("install", commands.install, said if commands.install else ""),
            _line("test", commands.test, said if commands.test else "how are the tests run?"),
            _line("lint", commands.lint),
            _line("typecheck", commands.typecheck),
            _line("reset", (), "run before a try that follows trouble with the machine"),
            "",
            "[agent]",
            _line("command", ("claude",), "the client"),
            _line("permission_mode", "acceptEdits", "it edits files; commands as allowed below"),
            "# Unasked; `git push` is denied all the same, unless a rule here names it.",
            _line("allowed_tools", _allowed(commands)),
            "",
            "[agent.models]",
            _line("default", "sonnet", "and per stage: scope, implement, review"),
            "",
            "[git]",
            base,
            _line("branch_prefix", proposal.branch_prefix, "branches are <prefix>/<run>/<task>"),
            "",
        ]
    )


def _allowed(commands: Commands) -> Argv:
    """What the agent may run unasked: git, and the project's own checks."""
    checks = [commands.test, commands.lint, commands.typecheck]
    plain = [shlex.join(check) for check in checks if check and check[0] != "sh"]
    return ("Bash(git *)", *(f"Bash({check}{star})" for check in plain for star in ("", " *")))


def _line(key: str, value: str | Argv, comment: str = "") -> str:
    line = f"{key} = {_toml(value)}"
    return f"{line:<{_COMMENT_COLUMN}} # {comment}" if comment else line


def _toml(value: str | Argv) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case ("sh", "-c", script):
            return _toml(script)
        case _:
            return f"[{', '.join(map(_toml, value))}]"
