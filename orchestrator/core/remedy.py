"""The commands that a reason names: whoever reads it can paste them.

Invariant: each is one line for a shell, with its run.
"""

import shlex

from orchestrator.core.state import RunState


def command(run_id: str, *words: str) -> str:
    return shlex.join(("orchestrator", "--run", run_id, *words))


def then_unpause(state: RunState) -> str:
    """The end of a reason; ``views`` and drivers that name the command beside it leave it out."""
    return f"; then: {command(state.run_id, 'unpause')}"
