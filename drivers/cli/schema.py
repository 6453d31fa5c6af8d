"""``schema``: JSON Schemas, generated from the types that read and write."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from drivers.cli.context import Context
from orchestrator.core.errors import Usage
from orchestrator.core.words import nearest

HELP = """Print the JSON Schema of one of the files and results that other programs may rely on;
without a name, the list of them."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(SCHEMAS))


def run(args: argparse.Namespace, ctx: Context) -> int:
    if args.name is None:
        ctx.result(list(SCHEMAS), "\n".join(SCHEMAS))
        return 0
    if args.name not in SCHEMAS:
        raise Usage(f"no schema {args.name!r}{nearest(args.name, SCHEMAS)}")
    ctx.wants_json = True
    ctx.result({"$schema": DIALECT, "title": args.name, **SCHEMAS[args.name]()}, "")
    return 0


def _of_record(name: str) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        import msgspec

        from orchestrator.core import model, settings

        kind = getattr(model, name, None) or getattr(settings, name)
        return msgspec.json.schema(kind)

    return make


def _events() -> dict[str, Any]:
    """One line of the journal: the envelope, and one of the events."""
    import msgspec

    from orchestrator.core.events import KnownEvent

    event = msgspec.json.schema(KnownEvent)
    envelope = {
        "type": "object",
        "properties": {
            "v": {"const": 1},
            "seq": {"type": "integer", "minimum": 1},
            "ts": {"type": "string", "format": "date-time"},
            "run_id": {"type": "string"},
            "type": {"type": "string"},
            "end": {"const": True},
            "of": {"type": "integer"},
        },
        "required": ["v", "seq", "ts", "run_id", "type"],
    }
    definitions = event.pop("$defs")
    return {"allOf": [envelope, event], "$defs": definitions}


def _driver_log() -> dict[str, Any]:
    import msgspec

    from drivers.headless.heartbeat import DriverRecord

    return msgspec.json.schema(DriverRecord)


def _project_file() -> dict[str, Any]:
    from drivers.wiring_cli import project_file_schema

    return project_file_schema()


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "event": _events,
    "driver-record": _driver_log,
    "work-item": _of_record("WorkItem"),
    "stage-result": _of_record("StageResult"),
    "settings": _of_record("Settings"),
    "project-file": _project_file,
}
