"""``init-project``: write a first project file, and show what it was guessed from."""

import argparse
import subprocess
from pathlib import Path

from adapters.project.file import PROJECT_FILE, read_project_file
from adapters.project.first_file import TASKS_TEXT, Proposal, propose
from drivers.cli.context import Context
from orchestrator.core.errors import EnvironmentFault, Refused
from orchestrator.core.settings import Argv

HELP = """Write a first .orchestrator/project.toml for the current repository (or the directory
that --project names), from what its files say about language and tests; and an empty tasks.toml
where there are no tasks yet.  Nothing that exists is overwritten."""

GIT_TIMEOUT_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none of its own."""


def run(args: argparse.Namespace, ctx: Context) -> int:
    root = _repository(Path.cwd() / Path(ctx.project or ".").expanduser())
    path = root / PROJECT_FILE
    if path.exists():
        raise Refused(f"{path} exists already: edit it, or move it away first")
    branches = _git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n")
    current = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or None
    proposal = propose(root, current_branch=current, branches=branches)
    notes = list(proposal.notes)
    if not _git(root, "rev-parse", "--verify", "--quiet", "HEAD"):
        notes.append("the repository has no commit yet: runs start from one")
    wrote = [path]
    _write_new(path, proposal.project_text)
    if not (root / proposal.tasks_path).exists():
        wrote.append(root / proposal.tasks_path)
        _write_new(root / proposal.tasks_path, TASKS_TEXT)
    read_project_file(path, root)
    for note in notes:
        ctx.note(note)
    ctx.result(
        {
            "schema": 1,
            "root": root,
            "wrote": wrote,
            "seen": [{"language": it.language, "because": it.because} for it in proposal.seen],
            "commands": _commands(proposal),
            "base": proposal.base,
            "notes": notes,
        },
        _text(proposal, wrote),
    )
    return 0


def _repository(directory: Path) -> Path:
    directory = directory.resolve()
    top = _git(directory, "rev-parse", "--show-toplevel") if directory.is_dir() else ""
    if not top:
        raise Refused(f"{directory} is in no git repository: `git init` it, and commit, first")
    return Path(top)


def _git(directory: Path, *words: str) -> str:
    """What git says, or "" where it says no."""
    argv = ["git", "-C", str(directory), *words]
    try:
        done = subprocess.run(
            argv, capture_output=True, encoding="utf-8", errors="replace", timeout=GIT_TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise EnvironmentFault("git is not on PATH: install git 2.31 or newer") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"git gave no answer in {GIT_TIMEOUT_S:.0f} s: {argv}") from error
    return done.stdout.strip() if done.returncode == 0 else ""


def _write_new(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Refused(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error


def _commands(proposal: Proposal) -> dict[str, Argv]:
    names = ("install", "test", "lint", "typecheck")
    return {name: getattr(proposal.commands, name) for name in names}


def _text(proposal: Proposal, wrote: list[Path]) -> str:
    seen = [f"{it.language} ({it.because})" for it in proposal.seen[:1]] or ["nothing familiar"]
    lines = [f"saw     {seen[0]}"]
    for name, argv in _commands(proposal).items():
        words = argv[2:] if argv[:2] == ("sh", "-c") else argv
        lines.append(f"  {name:<10}{' '.join(words) or '-'}")
    lines += [f"wrote   {path}" for path in wrote]
    return "\n".join(
        [
            *lines,
            "",
            "next:",
            f"  look {PROJECT_FILE} over, above all the commands",
            f"  write tasks into {proposal.tasks_path}; commit both",
            "  orchestrator doctor",
            "  orchestrator --run NAME init-run",
        ]
    )
