"""``schema``: JSON Schemas, generated from the types that read and write."""

import argparse
from typing import Any

from drivers.cli.context import Context
from drivers.wiring_cli import project_file_schema
from orchestrator.core.errors import Usage
from orchestrator.core.words import nearest
from orchestrator.journal.projections import CostRow, StageRecord
from orchestrator.views.schema import schemas

HELP = """Print the JSON Schema of one of the files and results that other programs may rely on;
without a name, the list of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="work_item, event, status, …")


def run(args: argparse.Namespace, ctx: Context) -> int:
    known = all_schemas()
    if args.name is None:
        ctx.result(list(known), "\n".join(known))
        return 0
    name = args.name.replace("-", "_")
    if name not in known:
        raise Usage(f"no schema {args.name!r}{nearest(name, known)}; there are {', '.join(known)}")
    ctx.wants_json = True
    ctx.result(known[name], "")
    return 0


def all_schemas() -> dict[str, dict[str, Any]]:
    from drivers.headless.heartbeat import DriverRecord

    return schemas(
        {
            "driver_record": DriverRecord,
            "cost_row": CostRow,
            "stage_record": StageRecord,
            "project_file": project_file_schema(),
        }
    )
