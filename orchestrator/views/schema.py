"""JSON Schemas of what other programs read and write, generated from the types that do it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.core.events import KnownEvent
from orchestrator.core.model import StageResult, WorkItem
from orchestrator.core.settings import Settings
from orchestrator.views.cost_report import CostReport
from orchestrator.views.dispatchable import Dispatchable
from orchestrator.views.forecast import Forecast
from orchestrator.views.retrospective import Retrospective
from orchestrator.views.status import Status

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_ENVELOPE = {
    "type": "object",
    "properties": {
        "v": {"const": 1},
        "seq": {"type": "integer", "minimum": 1},
        "ts": {"type": "string", "format": "date-time"},
        "run_id": {"type": "string"},
        "type": {"type": "string"},
        "end": {"const": True, "description": "The last line of a commit."},
        "of": {"type": "integer", "minimum": 2, "description": "How many lines it has."},
    },
    "required": ["v", "seq", "ts", "run_id", "type"],
}


def schemas(more: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """By name.  ``more``: what is defined further out, as types or as ready schemas."""
    kinds: dict[str, Any] = {
        "work_item": WorkItem,
        "stage_result": StageResult,
        "settings": Settings,
        "status": Status,
        "dispatchable": Dispatchable,
        "cost_report": CostReport,
        "forecast": Forecast,
        "retrospective": Retrospective,
        **(more or {}),
    }
    found = {"event": _event()}
    for name, kind in kinds.items():
        found[name] = dict(kind) if isinstance(kind, Mapping) else msgspec.json.schema(kind)
    return {
        name: {"$schema": DIALECT, "title": name, **schema}
        for name, schema in sorted(found.items())
    }


def _event() -> dict[str, Any]:
    """One line of the journal: the envelope, and one of the events."""
    event = msgspec.json.schema(KnownEvent)
    definitions = event.pop("$defs")
    return {"allOf": [_ENVELOPE, event], "$defs": definitions}
