"""A run's settings as a person writes them: KEY VALUE, checked and typed.

The keys are the fields of Settings; the bounds stand here, one row each.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from orchestrator.core.errors import Usage
from orchestrator.core.model import Pipeline
from orchestrator.core.settings import Settings
from orchestrator.core.state import TaskState
from orchestrator.core.words import nearest

ALIASES: Mapping[str, str] = {"lane": "pipeline"}
"""``--lane`` is the word on the command line."""

BOUNDS: Mapping[str, tuple[float, float]] = {
    "max_concurrent": (1, 1000),
    "attempts_max": (1, 100),
    "send_backs_max": (0, 100),
    "infrastructure_retries_max": (0, 100),
    "dispatches_max": (1, 1000),
    "rotations_max": (0, 1000),
    "failing_tasks_max": (1, 1_000_000),
    "budget_usd": (0, 1_000_000),
    "task_budget_usd": (0, 1_000_000),
    "scope_budget_usd": (0, 1_000_000),
    "implement_budget_usd": (0, 1_000_000),
    "review_budget_usd": (0, 1_000_000),
    "spend_ratio_max": (0, 1000),
    "zero_work_max": (0, 1000),
    "headroom_share": (0, 0.95),
    "window_easy_share": (0, 1),
    "host_children_max": (0, 1000),
    "child_memory_mb": (1, 1_000_000),
    "memory_free_min_mb": (0, 10_000_000),
    "disk_free_min_mb": (0, 10_000_000),
    "load_per_core_max": (0, 1000),
}
"""Lowest and highest; for every ``…_s`` that is not named here: 0 to a week."""
WEEK_S = 7 * 24 * 3600.0
TASK_KEYS = ("budget_usd",)
"""What ``set --task`` changes."""


def changes_of(settings: Settings, pairs: Mapping[str, str]) -> dict[str, Any]:
    """What differs from ``settings``, as the journal keeps it.  Raises Usage for a bad pair."""
    present = msgspec.to_builtins(described(settings))
    changes = {}
    for written, text in pairs.items():
        key = key_of(written)
        if key not in present:
            raise Usage(f"no setting {written}{nearest(key, [*present, *ALIASES])}")
        value = value_of(key, text)
        if value != present[key]:
            changes[key] = value
    return changes


def key_of(written: str) -> str:
    """The setting that a person means."""
    key = written.replace("-", "_")
    return ALIASES.get(key, key)


def task_changes_of(task: TaskState, pairs: Mapping[str, str]) -> dict[str, Any]:
    """The same for what can be set of one task; ``none`` gives back what holds for all."""
    changes = {}
    for written, text in pairs.items():
        key = written.replace("-", "_")
        if key not in TASK_KEYS:
            raise Usage(f"{written} cannot be set for one task{nearest(key, TASK_KEYS)}")
        value = value_of(key, text)
        if value != getattr(task, key):
            changes[key] = value
    return changes


def described(settings: Settings) -> dict[str, Any]:
    """Every setting and its value, those at their default too."""
    return {field: getattr(settings, field) for field in settings.__struct_fields__}


def value_of(key: str, text: str) -> Any:
    """What a person wrote for a setting, typed.  Raises Usage."""
    kind = _KINDS[key]
    if kind == (float | None) and text.lower() in ("none", "null", "unlimited"):
        return None
    if kind is Pipeline:
        if text not in set(Pipeline):
            raise Usage(f"{key} is one of {', '.join(Pipeline)}, not {text!r}")
        return text
    if kind is bool:
        if text.lower() not in _BOOLS:
            raise Usage(f"{key} is true or false, not {text!r}")
        return _BOOLS[text.lower()]
    number = _number(key, text, whole=kind is int)
    low, high = BOUNDS.get(key, (0, WEEK_S))
    if not low <= number <= high:
        raise Usage(f"{key} is between {low:g} and {high:g}, not {text}")
    return number


def _number(key: str, text: str, *, whole: bool) -> int | float:
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Usage(f"{key} is a {'whole ' if whole else ''}number, not {text!r}")
    return number


_KINDS = {field.name: field.type for field in msgspec.structs.fields(Settings)}
_BOOLS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
