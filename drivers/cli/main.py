"""The console script: find the verb, run it, and turn every end into an exit status.

What went wrong is one line on stderr (failure.py); nobody is shown a traceback.  Only what
``--help`` needs is imported at the top.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from drivers.cli import arguments, failure
from orchestrator.core.errors import ExitStatus


def console() -> NoReturn:
    status = main(sys.argv[1:])
    failure.drop_unwritten(sys.stderr)
    sys.exit(status)


def main(argv: Sequence[str]) -> int:
    log = failure.Log()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        try:
            status = _perform(argv, log)
        except SystemExit as end:  # argparse, after printing help
            status = end.code if isinstance(end.code, int) else ExitStatus.DONE
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - the last place that can turn it into a line
        return failure.report(error, log)
    return status


def _perform(argv: Sequence[str], log: failure.Log) -> int:
    verb, rest = arguments.split(argv)
    if verb is None:
        print(arguments.version() if "--version" in rest else arguments.overview())
        return ExitStatus.DONE

    from drivers.cli import parser
    from drivers.cli.context import Context
    from drivers.settings import Environment

    environment = Environment.read()
    log.directory = environment.state_dir
    module = verb.load()
    args = parser.parse(verb, module, rest)
    piped = sys.stdout is None or not sys.stdout.isatty()
    json_by_default = piped and bool(getattr(module, "JSON_WHEN_PIPED", False))
    ctx = Context.of(args, environment, json_by_default=json_by_default, log=log)
    return module.run(args, ctx)


if __name__ == "__main__":
    console()
