"""What a person changes of a simulated run while it runs, and lets go on again."""

import random
from collections.abc import Callable, Mapping

from orchestrator.core import pausing, steer
from orchestrator.core.events import KnownEvent
from orchestrator.core.options import LANES, STAGE_KEYS
from orchestrator.core.state import RunState
from orchestrator.core.undo import undo

BY = "person"
MODELS = ("opus", "haiku", "default")

Decide = Callable[[RunState], list[KnownEvent]]


def _set(**pairs: str) -> Decide:
    return lambda state: steer.change_settings(state, pairs, by=BY)


def _set_task(name: str, **pairs: str) -> Decide:
    return lambda state: steer.change_task(state, name, pairs, by=BY)


def _set_model(rng: random.Random, name: str) -> Decide:
    model = rng.choice(MODELS)
    if rng.random() < 0.3:
        return _set_task(name, model=model)
    return _set(**{f"models.{rng.choice(STAGE_KEYS)}": model})


def _pause_task(rng: random.Random, name: str) -> Decide:
    return lambda state: pausing.pause_parts(state, [name], [], reason="test", by=BY)


def _pause_lane(rng: random.Random, name: str) -> Decide:
    lane = rng.choice(LANES)
    return lambda state: pausing.pause_parts(state, [], [lane], reason="test", by=BY)


def _unpause_task(rng: random.Random, name: str) -> Decide:
    return lambda state: pausing.unpause_parts(state, [name], [], reason="", by=BY)


def _unpause_lane(rng: random.Random, name: str) -> Decide:
    return lambda state: pausing.unpause_parts(state, [], LANES, reason="", by=BY)


CHANGES: Mapping[str, Callable[[random.Random, str], Decide]] = {
    "limit": lambda rng, name: _set(max_concurrent=str(rng.randint(1, 4))),
    "attempts": lambda rng, name: _set(attempts_max=str(rng.randint(1, 4))),
    "budget": lambda rng, name: _set(budget_usd=str(round(rng.uniform(0, 4), 2))),
    "model": _set_model,
    "priority": lambda rng, name: _set_task(name, priority=str(rng.randint(-2, 3))),
    "pause a task": _pause_task,
    "unpause a task": _unpause_task,
    "pause a lane": _pause_lane,
    "unpause a lane": _unpause_lane,
    "undo": lambda rng, name: lambda state: undo(state, 1, by=BY),
}
"""Command -> what it decides, of this task where it is about one."""


def has_paused_parts(state: RunState) -> bool:
    return bool(state.set_aside or state.settings.paused_lanes)


def let_parts_go_on(state: RunState) -> list[KnownEvent]:
    """All that a person has paused of the run; nothing where it has ended."""
    if state.finalized is not None:
        return []
    return pausing.unpause_parts(state, pausing.paused_tasks(state), LANES, reason="", by=BY)
