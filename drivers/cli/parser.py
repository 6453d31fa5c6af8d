"""One command's own arguments, and the global options, which may stand before or after it."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from drivers.cli.verbs import Verb, VerbModule
from orchestrator.core.errors import Usage
from orchestrator.core.words import nearest


class Parser(argparse.ArgumentParser):
    """Complains by raising, in the words of this program."""

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): expected one argument$", r"\1 has no value", message)
        raise Usage(f"{message}; see `{self.prog} --help`")


def parse(verb: Verb, module: VerbModule, argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog=f"orchestrator {verb.name}", description=module.HELP, allow_abbrev=False)
    module.add_arguments(parser)
    _add_global_options(parser)
    options = set(parser._option_string_actions)
    for word in argv:
        if word == "--":
            break
        name = word.partition("=")[0]
        if name.startswith("--") and name not in options:
            parser.error(f"{verb.name} has no option {name}{nearest(name, options)}")
    return parser.parse_args(argv)


def _add_global_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("global options, before or after the command")
    group.add_argument("--run", metavar="RUN", help="the run's id")
    group.add_argument(
        "--project",
        metavar="PROJECT",
        help="directory with .orchestrator/project.toml, such a file, a module, or an entry point"
        " (default: the current repository)",
    )
    group.add_argument(
        "--root", metavar="DIR", help="the directory of run stores, instead of the default"
    )
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--text", action="store_true", help="print the result for a person")


class NotBuilt(argparse.Action):
    """An option that is promised and not built: refused, never ignored."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs="?", help=argparse.SUPPRESS)

    def __call__(self, *_: object, **__: object) -> None:
        raise Usage(f"{self.option_strings[0]} is not built yet")
