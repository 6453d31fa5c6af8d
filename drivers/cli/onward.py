"""What a person who has just steered a run does next, where no driver takes it up by itself."""

from drivers.cli.context import Context
from drivers.cli.status import WIDTH_IN_A_PIPE, look
from orchestrator.core.state import RunState
from orchestrator.views.advice import to_go_on
from orchestrator.views.text import advice_lines


def onward(ctx: Context, state: RunState) -> tuple[str | None, list[str]]:
    """The next command, and the lines that end a command's text with it and all after it.

    None, and what its driver does, where one is live.
    """
    status = look(ctx.store(), state, ctx.now())
    if status.driver.alive:
        return None, ["its driver is live, and takes it up"]
    steps = to_go_on(status, program=ctx.program())
    return (steps[0].command if steps else None), advice_lines(steps, WIDTH_IN_A_PIPE)
