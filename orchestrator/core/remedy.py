"""The command that lifts a pause, in the pause's own reason: whoever reads it can paste it."""

import shlex

from orchestrator.core.state import RunState


def then_unpause(state: RunState) -> str:
    """The end of a reason; ``views`` and drivers that name the command beside it leave it out."""
    return f"; then: {shlex.join(('orchestrator', '--run', state.run_id, 'unpause'))}"
