"""The project: can its tasks be read, are its commands' programs there, do its models exist?"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from drivers.checkup.check import Check, fail, ok, warn
from orchestrator.core.settings import Argv, Project
from orchestrator.ports.tasks import SourceTask

COMMANDS = ("install", "test", "lint", "typecheck", "reset")
GIT_TIMEOUT_S = 20.0
FIND_TIMEOUT_S = 20.0
_NOT_FOUND = 33
_FIND = f"""import importlib.util, sys
sys.exit({_NOT_FOUND} if importlib.util.find_spec(sys.argv[1]) is None else 0)"""

_SHELLS_OWN = frozenset(
    {
        *(".", ":", "[", "{", "(", "!", "alias", "cd", "command", "echo", "eval", "exec", "exit"),
        *("export", "false", "for", "if", "printf", "set", "source", "test", "trap", "true"),
        *("ulimit", "umask", "unset", "until", "while"),
    }
)
_MODEL = re.compile(
    r"(default|sonnet|opus|haiku|opusplan|best)(\[\w+\])?|(\w+\.)*(anthropic\.)?claude-[\w.:@-]+(\[\w+\])?"
    r"|arn:\S+"
)


def tasks(found: tuple[SourceTask, ...], path: str) -> Check:
    """The source has been read as a whole: ids, dependencies, cycles."""
    if not found:
        mend = 'write one: [[task]], and below it id = "T1", title = "…", body = "…"'
        return warn("tasks", f"{path} has none", mend=mend)
    waiting = sum(not task.done for task in found)
    return ok("tasks", f"{len(found)} in {path}, {len(found) - waiting} of them done")


def commands(project: Project, environ: Mapping[str, str]) -> Iterator[Check]:
    """One for each command whose program is not where a fresh worktree would find it."""
    names = [name for name in COMMANDS if getattr(project.commands, name)]
    found = [check for name in names if (check := _command(name, project, environ)) is not None]
    yield from found
    if not found:
        yield ok("commands", f"programs of {', '.join(names)} are there" if names else "none")


def models(project: Project) -> Check:
    named = {
        *project.models.values(),
        *(stage.model for stage in project.stages.values() if stage.model),
    }
    odd = sorted(model for model in named if not _MODEL.fullmatch(model))
    if odd:
        mend = "an alias (sonnet, opus, haiku) or an id (claude-…): the client refuses others late"
        return warn("models", f"no model that is known: {', '.join(odd)}", mend=mend)
    return ok("models", ", ".join(sorted(named)) or "the client's own")


def _command(name: str, project: Project, environ: Mapping[str, str]) -> Check | None:
    words = plain_words(getattr(project.commands, name))
    program = words[0] if words else ""
    may_be_installed = bool(project.commands.install) and name != "install"
    if not program:
        return None
    if _is_there(program, Path(project.root), environ):
        if may_be_installed or not (module := _missing_module(words, project.root, environ)):
            return None
        found = f"{name}: {program} has no module {module}"
        mend = f"install it for {program}, or let [commands] install bring it"
        return fail("commands", found, mend=mend)
    is_untracked = "/" in program and Path(project.root, program).exists()
    where = "is not in git: a fresh worktree lacks it" if is_untracked else _nowhere(program)
    found = f"{name}: {program} {where}"
    if may_be_installed:
        return warn("commands", found, mend="see that the install command brings it")
    return fail("commands", found, mend=f"install it, or mend [commands] {name}")


def _nowhere(program: str) -> str:
    return "is not in the repository" if "/" in program else "is not on PATH"


def plain_words(argv: Argv) -> list[str]:
    """What a command starts with, program first; empty where that is the shell's to say."""
    if argv[:2] != ("sh", "-c"):
        return list(argv)
    try:
        words = shlex.split(argv[2], comments=True)
    except ValueError:
        return []
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if not words or words[0] in _SHELLS_OWN or re.search(r"[$`*?;&|<>(){}~]", words[0]):
        return []
    return words


def _missing_module(words: list[str], root: str, environ: Mapping[str, str]) -> str:
    """The module of ``python -m MODULE`` that this python does not find; "" where it does, or
    cannot be asked."""
    program, *options = words
    if not re.fullmatch(r"(.*/)?python[\d.]*", program) or options[:1] != ["-m"]:
        return ""
    path = shutil.which(program, path=environ.get("PATH", "")) or program
    for module in options[1:2]:
        try:
            asked = [path, "-c", _FIND, module.split(".")[0]]
            done = subprocess.run(
                asked, cwd=root, capture_output=True, timeout=FIND_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return module if done.returncode == _NOT_FOUND else ""
    return ""


def _is_there(program: str, root: Path, environ: Mapping[str, str]) -> bool:
    if "/" not in program:
        return shutil.which(program, path=environ.get("PATH", "")) is not None
    if os.path.isabs(program):
        return os.access(program, os.X_OK)
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "ls-files", "--error-unmatch", "--", program],
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return (root / program).exists()
    return done.returncode == 0
