"""Make the sample repository: a small Python package, five tasks that depend on each other.

The tasks' changes are real code with real tests; what plays them is scenario.toml beside the
files.  The repository is self-contained: a project file, a task file, one commit on ``main``.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from adapters.execution import rehearsal

SAMPLE = Path(__file__).parent / "sample"
SCENARIO = SAMPLE / "scenario.toml"
TASK_IDS = ("slug", "counts", "wrap", "outline", "report")
_GIT_TIMEOUT_S = 30


def make_repository(
    root: Path,
    *,
    command: Sequence[str] | None = None,
    agent_env: Mapping[str, str] | None = None,
) -> Path:
    """Fill ``root``, which must be empty or absent, and commit.  Returns the project file.

    ``command`` is the client's argv prefix; None: the rehearsal agent with the sample's
    scenario.  Raises FileExistsError where there is something, CalledProcessError where git fails.
    """
    if root.exists() and any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty")
    _copy_templates(SAMPLE / "repository", root)
    project_file = root / ".orchestrator" / "project.toml"
    project_file.parent.mkdir()
    argv = list(command or rehearsal.command(str(SCENARIO)))
    text = (SAMPLE / "project.toml").read_text()
    text = _filled(text, "command", json.dumps(argv, ensure_ascii=False))
    text = _filled(text, "env", _table(agent_env or {}))
    project_file.write_text(text)
    _git(root, "init", "--quiet", "--initial-branch=main")
    # Its own identity: a machine may have none, and a person's belongs to their commits.
    for key, value in (
        ("user.name", "Sample"),
        ("user.email", "sample@example.invalid"),
        ("commit.gpgsign", "false"),
    ):
        _git(root, "config", key, value)
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message", "A text toolkit, and five wishes")
    return project_file


def _filled(text: str, key: str, value: str) -> str:
    before, line, after = text.partition(f"\n{key} = ")
    assert line, key
    return before + line + value + "\n" + after.partition("\n")[2]


def _copy_templates(source: Path, target: Path) -> None:
    """``x.py-tpl`` becomes ``x.py``: named so, no tool takes it for this project's code."""
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        copy = target / str(path.relative_to(source)).removesuffix("-tpl")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())


def _git(root: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(
        ["git", *arguments],
        cwd=root,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=_GIT_TIMEOUT_S,
    )


def _table(values: Mapping[str, str]) -> str:
    """An inline table; a JSON string is a TOML string."""
    pairs = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return f"{{ {', '.join(pairs)} }}" if values else "{}"
