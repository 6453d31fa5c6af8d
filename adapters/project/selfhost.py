"""The project that is this repository: ``--project adapters.project.selfhost``.

An example of a project adapter too: any importable module with ``project() -> Project`` is one.
"""

from pathlib import Path

from orchestrator.core.errors import Refused
from orchestrator.core.model import Stage
from orchestrator.core.settings import (
    AgentSettings,
    Commands,
    GitSettings,
    Project,
    StageSettings,
    TaskSource,
)

_MARK = Path("adapters", "project", "selfhost.py")


def project() -> Project:
    """Raises Refused where no checkout is at hand."""
    return Project(
        name="orchestrator",
        root=str(_checkout(Path(__file__).resolve().parents[2], Path.cwd())),
        tasks=TaskSource(kind="local", path="tasks.toml"),
        commands=Commands(test=("scripts/test", "--fast"), lint=("scripts/check",)),
        agent=AgentSettings(
            allowed_tools=(
                "Bash(git *)",
                "Bash(scripts/test *)",
                "Bash(scripts/check)",
                "Bash(.venv/bin/*)",
            ),
        ),
        git=GitSettings(base="HEAD", branch_prefix="orchestrator"),
        stages={Stage.IMPLEMENT: StageSettings(timeout_s=7200.0, effort="high")},
    )


def _checkout(source: Path, cwd: Path) -> Path:
    """Where this source lies when it is run from a checkout, else the one around ``cwd``."""
    for directory in (source, cwd, *cwd.parents):
        if (directory / ".git").exists() and (directory / _MARK).is_file():
            return directory
    raise Refused(f"{cwd} is in no checkout of orchestrator's own repository: cd to one")
