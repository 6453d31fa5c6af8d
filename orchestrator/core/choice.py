"""Which model and which effort a stage of a task is given: the nearest word counts."""

from orchestrator.core.model import Stage, WorkItem
from orchestrator.core.settings import MODEL_DEFAULT
from orchestrator.core.state import RunState, TaskState


def model_of(state: RunState, task: TaskState, stage: Stage) -> str:
    """The task's own, then the settings', then the project file's.  Empty without a model."""
    if stage.is_deterministic:
        return ""
    settings, models = state.settings.models, state.project.models
    return (
        task.model
        or settings.get(stage.value)
        or settings.get("default")
        or state.project.stage(stage).model
        or models.get(stage.value)
        or models.get("default")
        or MODEL_DEFAULT
    )


def effort_of(state: RunState, task: TaskState, stage: Stage) -> str:
    """Empty: the client's own."""
    if stage.is_deterministic:
        return ""
    settings = state.settings.efforts
    return (
        task.effort
        or settings.get(stage.value)
        or settings.get("default")
        or state.project.stage(stage).effort
        or ""
    )


def is_as_chosen(state: RunState, work: WorkItem) -> bool:
    """Not so where a person has changed model or effort since the work item was made."""
    task = state.tasks[work.task_id]
    chosen = model_of(state, task, work.stage), effort_of(state, task, work.stage)
    return (work.model, work.effort) == chosen
