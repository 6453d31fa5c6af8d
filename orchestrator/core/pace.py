"""How long stages are expected to take, and so how long the way to the end of a path is.

Learned when past runs are loaded, and kept until they are loaded again: heights of all
tasks rest on the same figures.  Without any, every stage counts as one.
"""

from collections import defaultdict

from orchestrator.core.choice import model_of
from orchestrator.core.model import Stage
from orchestrator.core.state import RunState, TaskState

STAGE_UNKNOWN = 1.0


def learn_paces(state: RunState) -> None:
    """From the history as it is now: the mean, because a path's length is a sum."""
    took: defaultdict[tuple[Stage, str], list[float]] = defaultdict(list)
    for (stage, model), samples in state.history.samples.items():
        took[stage, model] += [sample.duration_s for sample in samples]
    state.pace_s = {kind: sum(values) / len(values) for kind, values in took.items() if values}


def span(state: RunState, task: TaskState) -> float:
    """Of the whole pipeline of a task, in seconds; in stages where nothing is known."""
    paces = state.pace_s
    if not paces:
        return STAGE_UNKNOWN * len(task.pipeline.stages)
    return sum(_pace(state, stage, model_of(state, task, stage)) for stage in task.pipeline.stages)


def _pace(state: RunState, stage: Stage, model: str) -> float:
    """A model that is new here counts as the others do, a stage that is new as the mean stage."""
    known = state.pace_s.get((stage, model))
    if known is not None:
        return known
    alike = [pace for (other, _), pace in state.pace_s.items() if other is stage]
    alike = alike or list(state.pace_s.values())
    return sum(alike) / len(alike)
