"""What this process is told by its environment: read once, at the start, and nowhere else.

A run's own settings are another matter: they are events (orchestrator/core/settings.py).
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import EnvironmentFault


@dataclass(frozen=True, slots=True)
class Environment:
    runs_root: Path
    """Where run stores are kept: ``ORCHESTRATOR_RUNS_ROOT``, else ``~/Development/runs``."""
    state_dir: Path
    """What is shared by all runs of this user: ``ORCHESTRATOR_STATE_DIR``, else
    ``$XDG_STATE_HOME/orchestrator``.  An error that belongs to no run is written down here."""
    user: str
    """Who gives commands, for the journal; empty where nothing says."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "Environment":
        runs_root = environ.get("ORCHESTRATOR_RUNS_ROOT") or "~/Development/runs"
        state_home = environ.get("XDG_STATE_HOME") or "~/.local/state"
        state_dir = environ.get("ORCHESTRATOR_STATE_DIR") or f"{state_home}/orchestrator"
        return cls(
            runs_root=_absolute(runs_root, environ),
            state_dir=_absolute(state_dir, environ),
            user=environ.get("USER") or environ.get("LOGNAME") or _login(),
        )


def _login() -> str:
    """Where no shell has said it, as in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def _absolute(text: str, environ: Mapping[str, str]) -> Path:
    if text == "~" or text.startswith("~/"):
        home = environ.get("HOME") or os.path.expanduser("~")
        if home == "~":
            raise EnvironmentFault(
                "no home directory: set HOME, or ORCHESTRATOR_RUNS_ROOT and XDG_STATE_HOME"
            )
        text = home + text[1:]
    return Path(os.path.abspath(text))
