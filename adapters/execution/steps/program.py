"""Run the stage that the inputs name, and say how it ended.

Invariant: whatever the stage meets, the last line is its result; only a kill leaves none.
"""

import os
import signal
from collections.abc import Mapping
from types import FrameType
from typing import NoReturn

from adapters.execution.steps.commands import Commands
from adapters.execution.steps.environment import for_commands
from adapters.execution.steps.inputs import Inputs
from adapters.execution.steps.result import Printer, Result, failure
from orchestrator.core.errors import OrchestratorError, Usage, WorktreeGone, is_starved


def main(text: bytes, environ: Mapping[str, str]) -> int:
    printer = Printer()
    try:
        inputs = Inputs.parse(text)
        # The lane gave the whole environment; run by hand, it is cut to size here.
        env = for_commands(environ, environ, inputs.values("env"))
        commands = Commands(env, printer)
        _stop_with(commands)
        result = run_stage(inputs, printer, commands)
    except Usage as error:
        result = failure("misconfigured", str(error))
    except WorktreeGone as error:
        result = failure("worktree_gone", str(error))
    except (OrchestratorError, OSError, RuntimeError, MemoryError) as error:
        result = _met(error)
    printer.result(result)
    return 1 if result.cause else 0


def _met(problem: Exception) -> Result:
    """Trouble around the stage; where the machine was short for a moment, it has only died."""
    said = str(problem)
    if isinstance(problem, OSError):
        where = f" ({problem.filename})" if problem.filename else ""
        said = f"{problem.strerror or problem}{where}"
    if is_starved(problem):
        return failure("crash", said or "the machine is out of memory")
    if not isinstance(problem, OrchestratorError | OSError):
        raise problem
    return failure("infrastructure", said)


def run_stage(inputs: Inputs, printer: Printer, commands: Commands) -> Result:
    match inputs.text("stage"):
        case "intake":
            from adapters.execution.steps.intake import intake

            return intake(inputs, printer, commands)
        case "test":
            from adapters.execution.steps.check import check

            return check(inputs, printer, commands)
        case "deliver":
            from adapters.execution.steps.deliver import deliver

            return deliver(inputs, printer)
        case other:
            raise Usage(f"there is no deterministic stage {other!r}: intake, test or deliver")


def _stop_with(commands: Commands) -> None:
    def stop(number: int, _: FrameType | None) -> NoReturn:
        commands.stop()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
