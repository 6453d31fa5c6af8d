"""The command line as a whole: which command it is, and what there is to choose from.

Whatever is wrong with it ends in one line that names the nearest thing there is.
"""

from collections.abc import Sequence

from drivers.cli.verbs import GROUPS, NOT_BUILT, VERBS, Verb
from orchestrator.core.errors import Usage
from orchestrator.core.words import nearest

GLOBAL_WITH_VALUE = ("--run", "--project", "--root")
GLOBAL_FLAGS = ("--json", "--text")


def split(argv: Sequence[str]) -> tuple[Verb | None, list[str]]:
    """Find the command among the arguments; the rest is the command's own.

    None: there is no command, and help was asked for.
    """
    wants_value = ""
    for at, word in enumerate(argv):
        if wants_value:
            if word.startswith("-"):
                raise Usage(f"{wants_value} has no value before {word}")
            wants_value = ""
        elif word in GLOBAL_WITH_VALUE:
            wants_value = word
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
    if wants_value:
        raise Usage(f"{wants_value} has no value")
    if argv and argv[-1] in VERBS:
        option = argv[-2]
        raise Usage(f"{option} has no value, or no command follows: {option} VALUE {argv[-1]} …")
    raise Usage("which command? see `orchestrator --help`")


def find(name: str) -> Verb:
    if name in NOT_BUILT:
        raise Usage(f"{name} is not built yet")
    if name not in VERBS:
        raise Usage(f"no command {name!r}{nearest(name, VERBS)}; see `orchestrator --help`")
    return VERBS[name]


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
