"""A run's settings, and what can be set of one task, as a person writes them: KEY VALUE.

The keys are the fields of Settings, those by stage as ``models.implement``; the bounds stand
here, one row each.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from orchestrator.core.errors import Usage
from orchestrator.core.model import Mode, Pipeline, Stage, lane_of
from orchestrator.core.settings import EFFORTS, Settings, is_model_name
from orchestrator.core.state import TaskState
from orchestrator.core.words import nearest

BY_STAGE = ("models", "efforts")
STAGE_KEYS = ("default", *(stage.value for stage in Stage if not stage.is_deterministic))
LANES = tuple(
    dict.fromkeys(lane_of(stage, mode) for stage in (Stage.REVIEW, Stage.TEST) for mode in Mode)
)
"""Every lane there is."""
ALIASES: Mapping[str, str] = {"lane": "pipeline"}
"""``--lane`` is the word on the command line."""

BOUNDS: Mapping[str, tuple[float, float]] = {
    "max_concurrent": (1, 1000),
    "attempts_max": (1, 100),
    "send_backs_max": (0, 100),
    "infrastructure_retries_max": (0, 100),
    "dispatches_max": (1, 1000),
    "rotations_max": (0, 1000),
    "failing_tasks_max": (0, 1_000_000),
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
TASK_KEYS = ("priority", "model", "effort", "budget_usd", "paused")
"""What ``set --task`` changes."""
PRIORITY_MAX = 1_000_000
PAUSED = "a person paused it"
"""Why, where nothing else was said."""
SHOWN_CHARS_MAX = 40
"""Of what is no model's name."""
NOTHING = ("none", "null", "unlimited")
DEFAULT = "default"


def changes_of(settings: Settings, pairs: Mapping[str, str]) -> dict[str, Any]:
    """What differs from ``settings``, as the journal keeps it.  Raises Usage for a bad pair."""
    present = flat(settings)
    changes = {}
    for written, text in pairs.items():
        key = key_of(written)
        value = value_of(key, text)
        if value != present.get(key):
            changes[key] = value
    return nested(changes)


def key_of(written: str) -> str:
    """The setting that a person means.  Raises Usage where there is none."""
    key = written.replace("-", "_")
    key = ALIASES.get(key, key)
    name, dot, stage = key.partition(".")
    if name in BY_STAGE and stage not in STAGE_KEYS:
        said = f"no stage {stage} in {written}{nearest(stage, STAGE_KEYS)}" if stage else name
        raise Usage(
            f"{said}: it is set by stage, as {_or(f'{name}.{each}' for each in STAGE_KEYS)}"
        )
    if name not in _KINDS or (dot and name not in BY_STAGE):
        raise Usage(f"no setting {written}{nearest(key, KEYS)}")
    return key


def task_changes_of(task: TaskState, pairs: Mapping[str, str], reason: str = "") -> dict[str, Any]:
    """The same for what can be set of one task; ``none`` gives back what holds for all."""
    own = own_of(task)
    changes = {}
    for written, text in pairs.items():
        key = written.replace("-", "_")
        if key not in TASK_KEYS:
            raise Usage(f"{written} cannot be set for one task{nearest(key, TASK_KEYS)}")
        value = _value_of_task(key, text, reason)
        is_paused_already = key == "paused" and value and own[key] and not reason
        if value != own[key] and not is_paused_already:
            changes[key] = value
    return changes


def own_of(task: TaskState) -> dict[str, Any]:
    """What is set of one task, and what is not."""
    return {key: getattr(task, key) for key in TASK_KEYS}


def described(settings: Settings) -> dict[str, Any]:
    """Every setting and its value, those at their default too."""
    return {field: getattr(settings, field) for field in settings.__struct_fields__}


def flat(settings: Settings) -> dict[str, Any]:
    """The same as the journal has the values; of settings by stage those stages that are set."""
    return flattened(msgspec.to_builtins(described(settings)))


def flattened(changes: Mapping[str, Any]) -> dict[str, Any]:
    """``{"models": {"scope": …}}`` -> ``{"models.scope": …}``."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        if isinstance(value, dict):
            found.update((f"{key}.{stage}", each) for stage, each in value.items())
        else:
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round."""
    found: dict[str, Any] = {}
    for key, value in changes.items():
        name, dot, stage = key.partition(".")
        if dot:
            found.setdefault(name, {})[stage] = value
        else:
            found[name] = value
    return found


def value_of(key: str, text: str) -> Any:
    """What a person wrote for a setting, typed.  Raises Usage."""
    name = key.partition(".")[0]
    if text.lower() == DEFAULT:
        return _DEFAULTS.get(key)
    if name in BY_STAGE:
        return None if text.lower() in NOTHING else _model_or_effort(key, text)
    if key == "paused_lanes":
        return [] if text.lower() in NOTHING else lanes_of(text.split(","))
    kind = _KINDS[key]
    if kind == (float | None) and text.lower() in NOTHING:
        return None
    if kind is Pipeline:
        if text not in set(Pipeline):
            raise Usage(f"{key} is one of {', '.join(Pipeline)}, not {text!r}")
        return text
    if kind is bool:
        return _bool(key, text)
    low, high = BOUNDS.get(key, (0, WEEK_S))
    return _number(key, text, low, high, whole=kind is int)


def lanes_of(words: Iterable[str]) -> list[str]:
    """Lanes by their names, each once.  Raises Usage."""
    named = {word.strip() for word in words}
    for word in sorted(named - set(LANES)):
        raise Usage(f"no lane {word!r}{nearest(word, LANES)}: a lane is {_or(LANES)}")
    return [lane for lane in LANES if lane in named]


def _value_of_task(key: str, text: str, reason: str) -> Any:
    is_given_back = text.lower() in (*NOTHING, DEFAULT)
    match key:
        case "priority":
            if is_given_back:
                return 0
            return _number(key, text, -PRIORITY_MAX, PRIORITY_MAX, whole=True)
        case "paused":
            return (reason or PAUSED) if not is_given_back and _bool(key, text) else None
        case "budget_usd":
            return None if is_given_back else value_of(key, text)
        case _:
            return None if is_given_back else _model_or_effort(key, text)


def _model_or_effort(key: str, text: str) -> str:
    if key.startswith("effort") and text not in EFFORTS:
        raise Usage(f"{key} is {_or(EFFORTS)}, not {text!r}")
    return text if key.startswith("effort") else model_of(key, text)


def model_of(key: str, text: str) -> str:
    """What a person wrote for a model.  Raises Usage."""
    if not is_model_name(text):
        raise Usage(f"{key} is a model's name, not {shortened(text)!r}")
    return text


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def _bool(key: str, text: str) -> bool:
    if text.lower() not in _BOOLS:
        raise Usage(f"{key} is true or false, not {text!r}")
    return _BOOLS[text.lower()]


def _number(key: str, text: str, low: float, high: float, *, whole: bool) -> int | float:
    number: int | float = math.nan
    try:
        number = int(text) if whole else float(text)
        is_number = math.isfinite(number)
    except (ValueError, OverflowError):
        is_number = False
    if not is_number:
        raise Usage(f"{key} is a {'whole ' if whole else ''}number, not {text!r}")
    if not low <= number <= high:
        raise Usage(f"{key} is between {low:g} and {high:g}, not {text}")
    return number


def _or(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


_KINDS = {field.name: field.type for field in msgspec.structs.fields(Settings)}
_DEFAULTS = flat(Settings())
KEYS = (
    *(name for name in _KINDS if name not in BY_STAGE),
    *(f"{name}.{stage}" for name in BY_STAGE for stage in STAGE_KEYS),
    *ALIASES,
)
"""Every key there is."""
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
