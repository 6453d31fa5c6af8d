"""What happened in a rehearsal, per kind, and whether the run's books are in order."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from drivers.cli.audit import dispatch_lines, lane_lines
from drivers.cli.demo_report import Place
from orchestrator.core.events import Entry, StageRecorded
from orchestrator.core.fold import replay
from orchestrator.core.model import Cause, Outcome, TaskStatus
from orchestrator.core.state import RunState
from orchestrator.journal.read import read_entries
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import DriverStatus
from orchestrator.views.moments import duration
from orchestrator.views.money import cost
from orchestrator.views.status import EventsAudit, LaneAudit, events_audit, lane_audit
from orchestrator.views.text import cut

EXAMPLE_CHARS_MAX = 90
AS_USUAL = frozenset(
    {"client_version", "model", "terminal_reason", "reviewed_commit", "reviewed_tree"}
)
"""Evidence that every call has."""
FOLLOWED = {
    Outcome.RETRY: "another attempt",
    Outcome.SENT_BACK: "sent back to implement",
    Outcome.AGAIN: "the same attempt again, not spent",
    Outcome.HELD: "held for a person",
    Outcome.FAILED: "the task failed",
}


class Happened(msgspec.Struct, kw_only=True):
    """One kind of failure."""

    cause: Cause
    times: int
    followed: dict[Outcome, int]
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    store: RunStore
    place: Place
    scenario: str
    status: int
    state: RunState
    records: Sequence[StageRecorded]
    events_audit: EventsAudit
    lane_audit: LaneAudit

    @classmethod
    def of(cls, store: RunStore, place: Place, *, scenario: str, status: int) -> "Report":
        entries: list[Entry] = list(read_entries(store.events_path))
        state = replay(entries)
        nobody = DriverStatus()
        return cls(
            store=store,
            place=place,
            scenario=scenario,
            status=status,
            state=state,
            records=[e.event for e in entries if isinstance(e.event, StageRecorded)],
            events_audit=events_audit(
                state, nobody, now=state.last_ts, lease_alive=lambda _: False
            ),
            lane_audit=lane_audit(state),
        )

    @property
    def is_clean(self) -> bool:
        return self.events_audit.clean and self.lane_audit.clean and not self._survivors()

    def value(self, command: Callable[..., str]) -> dict[str, Any]:
        return {
            "run": self.state.run_id,
            "run_state": self.state.status,
            "exit_status": self.status,
            "scenario": self.scenario,
            "directory": self.place.directory,
            "store": self.store.path,
            "happened": self._happened(),
            "noticed": self._noticed(),
            "tasks": {task.id: task.status for task in self.state.tasks.values()},
            "processes": {"ended": self._ended(), "survivors": self._survivors()},
            "clean": self.is_clean,
            "events_audit": self.events_audit,
            "lane_audit": self.lane_audit,
            "cost": cost(self.state),
            "commands": {"status": command("status"), "audit": command("audit")},
        }

    def text(self, command: Callable[..., str]) -> str:
        good = sum(record.cause is None for record in self.records)
        return "\n".join(
            [
                self._headline(),
                "",
                f"what went wrong ({good} of {len(self.records)} stages went well)",
                *(self._happened_lines() or ["  nothing"]),
                *self._noticed_lines(),
                "",
                *self._task_lines(),
                "",
                *dispatch_lines(self.events_audit),
                *lane_lines(self.lane_audit),
                f"processes   {'clean' if not self._survivors() else 'NOT CLEAN'}: {self._ended()}"
                f" left-over ended with their stage, {self._survivors()} survive",
                f"bill        {self.state.totals.cost_usd:.2f} USD of rehearsal money;"
                " nothing was spent",
                "",
                f"more: {command('status')}",
                f"all of it is in {shlex.quote(str(self.place.directory))}: delete that when you"
                " have seen enough",
            ]
        )

    def _headline(self) -> str:
        took = duration(self.state.last_ts - self.state.created_at)
        word = self.state.status.replace("_", " ")
        why = f" ({self.state.paused})" if self.state.paused else ""
        return f"scenario {self.scenario}: the run is {word}{why}, {took}"

    def _happened(self) -> list[Happened]:
        kinds: dict[Cause, list[StageRecorded]] = {}
        for record in self.records:
            if record.cause is not None:
                kinds.setdefault(record.cause, []).append(record)
        return [
            Happened(
                cause=cause,
                times=len(records),
                followed=dict(Counter(record.outcome for record in records)),
                example=records[0].error,
            )
            for cause, records in sorted(kinds.items(), key=lambda item: -len(item[1]))
        ]

    def _happened_lines(self) -> list[str]:
        lines = []
        for kind in self._happened():
            followed = ", ".join(
                FOLLOWED.get(outcome, outcome.value) + (f" ({n})" if n < kind.times else "")
                for outcome, n in kind.followed.items()
            )
            lines.append(f"  {kind.times:>3} {kind.cause:<16} {followed}")
            lines.append(f"      {'':<16} {cut(kind.example, EXAMPLE_CHARS_MAX)}")
        return lines

    def _noticed(self) -> dict[str, int]:
        """Calls with something in their evidence that is not as usual."""
        model = [record for record in self.records if not record.stage.is_deterministic]
        found = Counter(name for r in model for name in r.evidence if name not in AS_USUAL)
        return dict(found.most_common())

    def _noticed_lines(self) -> list[str]:
        noticed = ", ".join(f"{name} in {n}" for name, n in self._noticed().items())
        return [f"noticed in calls: {noticed}"] if noticed else []

    def _task_lines(self) -> list[str]:
        tasks = list(self.state.tasks.values())
        width = max(len(task.id) for task in tasks)
        return [
            f"{task.id:<{width}}  {task.status.replace('_', ' ')}"
            + (f": {cut(task.reason, EXAMPLE_CHARS_MAX)}" if task.reason else "")
            for task in tasks
            if task.status is not TaskStatus.COMPLETED
        ] or [f"all of {len(tasks)} tasks are completed"]

    def _ended(self) -> int:
        return sum(record.exit.descendants_ended for record in self.records)

    def _survivors(self) -> int:
        return sum(record.exit.survivors for record in self.records)
