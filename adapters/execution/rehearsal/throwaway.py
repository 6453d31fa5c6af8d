"""Where a rehearsal is played: a clone that nothing can come back from, and a scenario's file.

The clone has every branch of the original and no remote: nothing is pushed, and nothing in
the original, its worktrees among it, is touched.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from adapters.execution.rehearsal.faults import trouble_of
from adapters.execution.rehearsal.scenario import Scenario, ScenarioError, load

NAMED = Path(__file__).parent / "scenarios"
_GIT_TIMEOUT_S = 600


def named_scenarios() -> Iterator[tuple[str, Scenario]]:
    for path in sorted(NAMED.glob("*.toml")):
        yield path.stem, load(str(path))


def find_scenario(name: str) -> Path:
    """A name of ours, or a file's path.  Raises ScenarioError; also for what the file says."""
    ours = NAMED / f"{name}.toml"
    path = ours if ours.parent == NAMED and ours.is_file() else Path(name).absolute()
    if not path.is_file():
        known = ", ".join(found.stem for found in sorted(NAMED.glob("*.toml")))
        raise ScenarioError(f"there is no scenario {name!r}: name a file, or one of {known}")
    for fault in load(str(path)).faults():
        try:
            trouble_of(fault)
        except ScenarioError as error:
            raise ScenarioError(f"{path}: {error}") from None
    return path


def clone(root: Path, target: Path) -> None:
    """Raises CalledProcessError where git fails."""
    _git(root, "clone", "--quiet", "--no-hardlinks", str(root), str(target))
    # A branch that the original has checked out is one that the clone has too.
    _git(target, "fetch", "--quiet", "--update-head-ok", "origin", "+refs/heads/*:refs/heads/*")
    _git(target, "remote", "remove", "origin")


def _git(cwd: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=_GIT_TIMEOUT_S,
    )
