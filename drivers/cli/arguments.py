"""The command line: global options, before or after the command, and the command's own.

Whatever is wrong with it ends in one line that names the nearest thing there is.
"""

import argparse
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from drivers.cli.verbs import GROUPS, NOT_BUILT, VERBS, Verb, VerbModule
from orchestrator.core.errors import Usage

GLOBAL_WITH_VALUE = ("--run", "--project", "--root")
GLOBAL_FLAGS = ("--json", "--text")


class Parser(argparse.ArgumentParser):
    """Complains by raising, in the words of this program."""

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; see `{self.prog} --help`")


def split(argv: Sequence[str]) -> tuple[Verb | None, list[str]]:
    """Find the command among the arguments; the rest is the command's own.

    None: there is no command, and help was asked for.
    """
    skip = False
    for at, word in enumerate(argv):
        if skip:
            skip = False
        elif word in GLOBAL_WITH_VALUE:
            skip = True
        elif word in ("-h", "--help", "--version"):
            return None, list(argv)
        elif word.startswith("-"):
            name = word.partition("=")[0]
            if name not in GLOBAL_WITH_VALUE + GLOBAL_FLAGS:
                raise Usage(
                    f"{name} stands before the command, and is no global option"
                    f"{nearest(name, GLOBAL_WITH_VALUE + GLOBAL_FLAGS)}"
                )
        else:
            return find(word), [*argv[:at], *argv[at + 1 :]]
    raise Usage("which command? see `orchestrator --help`")


def find(name: str) -> Verb:
    if name in NOT_BUILT:
        raise Usage(f"{name} is not built yet")
    if name not in VERBS:
        raise Usage(f"no command {name!r}{nearest(name, VERBS)}; see `orchestrator --help`")
    return VERBS[name]


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


def overview() -> str:
    lines = [
        "usage: orchestrator [--run RUN] [--project PROJECT] COMMAND …",
        "",
        "A headless driver for batches of coding tasks.",
    ]
    for title, verbs in GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {verb.name:<14}{verb.summary}" for verb in verbs]
    lines += [
        "",
        "`orchestrator COMMAND --help` tells a command's options; --run, --project, --root, --json",
        "and --text may stand before or after it. `orchestrator demo` shows the whole of it.",
    ]
    return "\n".join(lines)


def version() -> str:
    from importlib import metadata

    try:
        return f"orchestrator {metadata.version('orchestrator')}"
    except metadata.PackageNotFoundError:
        return "orchestrator, run from its source"


def nearest(word: str, known: Collection[str]) -> str:
    """`` (did you mean …?)``, or nothing where nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


class NotBuilt(argparse.Action):
    """An option that is promised and not built: refused, never ignored."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs="?", help=argparse.SUPPRESS)

    def __call__(self, *_: object, **__: object) -> None:
        raise Usage(f"{self.option_strings[0]} is not built yet")
