"""What the demo leaves: the branches, the bill, and where to look.  Reads git, writes nothing."""

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.core.model import TaskStatus
from orchestrator.core.state import RunState, TaskState
from orchestrator.journal.store import RunStore
from orchestrator.views.moments import duration
from orchestrator.views.money import cost

GIT_TIMEOUT_S = 30
Command = Callable[..., str]
"""The words of a command on this run -> one line that can be pasted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demo is."""

    directory: Path

    @property
    def repository(self) -> Path:
        return self.directory / "repository"

    @property
    def runs(self) -> Path:
        return self.directory / "runs"

    @property
    def agent_home(self) -> Path:
        """Where the rehearsal agent keeps its sessions: not among the user's own."""
        return self.directory / "agent-home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    place: Place
    store: RunStore
    state: RunState
    status: int
    real: bool

    def value(self, command: Command) -> dict[str, Any]:
        return {
            "run": self.state.run_id,
            "run_state": self.state.status,
            "exit_status": self.status,
            "directory": self.place.directory,
            "repository": self.place.repository,
            "store": self.store.path,
            "branches": {task.id: task.branch for task in self._completed()},
            "rehearsal": not self.real,
            "cost": cost(self.state),
            "commands": self._commands(command),
        }

    def text(self, command: Command) -> str:
        return "\n".join(
            [
                self._headline(),
                "",
                *self._branch_lines(),
                "",
                *self._bill_lines(),
                "",
                "where to look",
                *(f"  {line}" for line in self._commands(command).values()),
                f"  {self.store.path}: the run's journal, its costs, and per stage what was sent"
                " and what came back",
                f"  all of it is in {self.place.directory}: delete that when you have seen enough",
            ]
        )

    def _headline(self) -> str:
        tasks = self.state.tasks
        took = duration(self.state.last_ts - self.state.created_at)
        word = self.state.status.replace("_", " ")
        again = ", and go on with the run-headless below" if self.status not in (0, 6) else ""
        return (
            f"run {self.state.run_id} is {word}: {len(self._completed())} of {len(tasks)} tasks"
            f" completed, {took}{again}"
        )

    def _branch_lines(self) -> list[str]:
        lines = [f"branches in {self.place.repository}; main is as it was"]
        rows = [(task.branch, task.title, self._change(task.branch)) for task in self._completed()]
        widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
        lines += [f"  {b:<{widths[0]}}  {t:<{widths[1]}}  {c}" for b, t, c in rows]
        lines += [
            f"  {task.id}: {task.status.replace('_', ' ')}"
            + (f", {task.reason}" if task.reason else "")
            for task in self.state.tasks.values()
            if task.status is not TaskStatus.COMPLETED
        ]
        return lines

    def _bill_lines(self) -> list[str]:
        total = cost(self.state)
        what = (
            "the bill, an estimate at list prices as the client reports it"
            if self.real
            else "the bill, in rehearsal money: scripted tokens at list prices; nothing was spent"
        )
        lines = [what]
        width = max(len(name) for name in (*self.state.tasks, "total"))
        for task in self.state.tasks.values():
            tries = sum(number - 1 for number in task.attempts.values())
            again = f"  with {tries} more {'try' if tries == 1 else 'tries'}" if tries else ""
            lines.append(f"  {task.id:<{width}}  {task.cost_usd:6.2f} USD{again}")
        by_stage = ", ".join(f"{stage} {usd:.2f}" for stage, usd in total.by_stage.items() if usd)
        cached = (
            f"; {total.cache_hit_rate:.0%} of the prompt tokens from cache"
            if total.cache_hit_rate is not None
            else ""
        )
        lines.append(
            f"  {'total':<{width}}  {total.total_usd:6.2f} USD  {self.state.audit.calls} calls:"
            f" {by_stage}{cached}"
        )
        return lines

    def _commands(self, command: Command) -> dict[str, str]:
        """Each is one line that can be pasted."""
        tasks = list(self.state.tasks.values())
        tried_most = max(tasks, key=lambda task: task.records)
        last = self._completed()[-1:] or tasks[-1:]
        git = ["git", "-C", str(self.place.repository), "log", "--oneline", "--graph"]
        found = {
            "status": command("status"),
            "activity": command("tail", tried_most.id),
            "audit": command("audit"),
        }
        if last[0].branch:
            found["branches"] = shlex.join([*git, f"main..{last[0].branch}"])
        if not self.state.status.is_terminal:
            found["go_on"] = command("run-headless", "--wait")
        return found

    def _completed(self) -> list[TaskState]:
        tasks = self.state.tasks.values()
        return [task for task in tasks if task.status is TaskStatus.COMPLETED]

    def _change(self, branch: str) -> str:
        """``3 files changed, 32 insertions(+)``, its dependencies' changes included."""
        done = subprocess.run(
            ["git", "-C", str(self.place.repository), "diff", "--shortstat", f"main...{branch}"],
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
        return done.stdout.strip()
