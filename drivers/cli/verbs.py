"""The commands there are: name -> module and the line that ``--help`` shows.

A verb's module is imported when it is used, and no other: ``--help`` imports none.
Each has ``HELP`` (a sentence or two), ``add_arguments(parser)`` and ``run(args, ctx)``; one
that prints JSON wherever stdout is not a terminal says ``JSON_WHEN_PIPED = True``.
"""

import importlib
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    import argparse

    from drivers.cli.context import Context


class VerbModule(Protocol):
    HELP: str

    def add_arguments(self, parser: "argparse.ArgumentParser") -> None: ...

    def run(self, args: "argparse.Namespace", ctx: "Context") -> int: ...


class Verb(NamedTuple):
    name: str
    summary: str

    def load(self) -> VerbModule:
        module = importlib.import_module("drivers.cli." + self.name.replace("-", "_"))
        return cast(VerbModule, module)


GROUPS: tuple[tuple[str, tuple[Verb, ...]], ...] = (
    (
        "begin",
        (
            Verb("demo", "a real batch on a sample repository; no account, no network"),
            Verb("rehearse", "your tasks on a clone, with an agent that fails as you ask it to"),
            Verb("doctor", "check this machine, and say how to mend what is missing"),
            Verb("init-project", "write a first .orchestrator/project.toml"),
            Verb("init-run", "create a run"),
            Verb("add-task", "add tasks from the project's task source to a run"),
            Verb("set", "change a run's settings, at any time"),
        ),
    ),
    (
        "drive",
        (
            Verb("dispatchable", "what could start now, and how much at once"),
            Verb("run-headless", "drive the run to its end, one claude child per ready stage"),
            Verb("next", "take one work item by hand"),
            Verb("record", "hand back the result of a work item"),
        ),
    ),
    (
        "see",
        (
            Verb("status", "where the run is"),
            Verb("watch", "status, kept up to date"),
            Verb("tail", "what a task's agent is doing"),
            Verb("audit", "check that everything dispatched and paid is accounted for"),
            Verb("cost-report", "where the money went, and what of it was of use"),
            Verb("forecast", "when it will end, what it will cost, what may not fit"),
            Verb("retrospective", "what became of it, against what was foreseen"),
        ),
    ),
    (
        "steer",
        (
            Verb("stop", "ask the driver to stop; the run can be resumed"),
            Verb("pause", "start nothing new until unpaused"),
            Verb("unpause", "go on after a pause"),
            Verb("requeue", "do a task again, on a new branch"),
            Verb("abandon", "leave a task undone, for good"),
        ),
    ),
    ("other programs", (Verb("schema", "JSON Schema of what is read and written"),)),
)

VERBS = {verb.name: verb for _, verbs in GROUPS for verb in verbs}

NOT_BUILT = frozenset(
    {
        "approve",
        "dashboard",
        "hold",
        "refresh-spec",
        "reject",
        "retire",
    }
)
"""Promised, and not there yet: named so that nobody takes them for a typing error."""
