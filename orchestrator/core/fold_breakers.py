"""Fold what the circuit breakers look at.

Invariant: nothing here is learned from a clock or kept outside of the events, so a driver that
is started again counts on; what a pause has answered for is never counted again.
"""

from orchestrator.core import breakers
from orchestrator.core.events import Entry, RunPaused, StageRecorded, TaskFailed
from orchestrator.core.state import Lease, RunState


def note_call(state: RunState, lease: Lease, event: StageRecorded) -> None:
    """Of a stage with a model, before its attempt is added to what is known of such stages."""
    counted = state.breakers
    if not breakers.counts(state, lease):
        return
    kind = (lease.stage, lease.model)
    counted.expected_usd[kind] = breakers.expected_usd(state, *kind)
    counted.dear = breakers.dear_with(state, event)
    counted.idle = breakers.idle_with(state, event)


def note_task_failed(state: RunState, event: TaskFailed) -> None:
    counted = state.breakers
    counted.failures_alike = breakers.alike_with(state, event.signature)
    counted.failure_signature = event.signature
    counted.failures_in_row += 1
    counted.failed = [*counted.failed, event.task_id][-breakers.NAMED_MAX :]


def note_task_completed(state: RunState) -> None:
    state.breakers.failures_in_row = 0
    state.breakers.failed.clear()


def trip(state: RunState, event: RunPaused, entry: Entry) -> None:
    if event.breaker:
        state.breakers.tripped = event.breaker
        state.breakers.tripped_seq = entry.seq
        state.canary = state.canary or "model"
        begin_anew(state)


def begin_anew(state: RunState) -> None:
    """What such stages are expected to cost stays as it was: a pause is no reason to get used to
    it."""
    counted = state.breakers
    counted.failures_in_row = 0
    counted.failures_alike = 0
    counted.failed.clear()
    counted.idle.clear()
    counted.dear.clear()


def close(state: RunState, lease: Lease) -> None:
    """A stage with a model has succeeded."""
    if breakers.counts(state, lease):
        state.breakers.tripped = ""
