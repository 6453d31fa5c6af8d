"""Which Claude session a stage belongs to, and what it has been charged.

Scope and implement share one session of the task; review has its own.
"""

from orchestrator.core.events import StageRecorded
from orchestrator.core.model import CallCost, ModelUsage, SessionId, Stage
from orchestrator.core.state import Session, TaskState


def session_of(task: TaskState, stage: Stage) -> Session | None:
    return task.review_session if stage is Stage.REVIEW else task.work_session


def start_session(task: TaskState, stage: Stage, session_id: SessionId | None) -> None:
    """Begin a session, or forget the present one (None).  The same id again changes nothing."""
    present = session_of(task, stage)
    if present is not None and present.id == session_id:
        return
    session = None if session_id is None else Session(id=session_id)
    if stage is Stage.REVIEW:
        task.review_session = session
    else:
        task.work_session = session


def book_call(task: TaskState, event: StageRecorded) -> None:
    """Keep what the session has cost so far; forget a session that cannot be resumed."""
    session = session_of(task, event.stage)
    if session is None:
        return
    session.calls += 1
    if event.session_id is not None:
        session.id = event.session_id  # older clients go on under another
    if event.cost is not None:
        _book_cost(session, event.cost)
        for model, used in event.cost.by_model.items():
            session.usage[model] = _sum(session.usage.get(model), used)
    if event.session_lost:
        start_session(task, event.stage, None)


def _book_cost(session: Session, cost: CallCost) -> None:
    """A total that has grown settles what was estimated before it, and so does one that is
    smaller: the client counts anew.  The same one again, or none, says nothing."""
    total_usd = cost.session_total_usd or 0.0
    if not total_usd or total_usd == session.total_usd:
        session.estimated_usd += cost.cost_usd
        return
    session.estimated_usd = cost.estimated_usd
    session.total_usd = total_usd


def _sum(before: ModelUsage | None, used: ModelUsage) -> ModelUsage:
    if before is None:
        return used
    return ModelUsage(
        input_tokens=before.input_tokens + used.input_tokens,
        output_tokens=before.output_tokens + used.output_tokens,
        cache_read_tokens=before.cache_read_tokens + used.cache_read_tokens,
        cache_write_tokens=before.cache_write_tokens + used.cache_write_tokens,
        cost_usd=before.cost_usd + used.cost_usd,
    )
