"""The virtual shim: what adapters/execution/shim.py does, as events on a machine.

The real one waits in poll(), which nothing simulated may do, so this is a model of it, and the
e2e tests hold the original to the same conduct.  Invariant: it holds its dispatch's lock until
its exit record is synced, or it is killed.
"""

import errno
import json
import signal
from collections.abc import Callable
from typing import Protocol

from tests.simulation.machine import File, Machine, Process
from tests.simulation.system import EXEC_S_MAX

STARTS_WITHIN_S = 0.05
RECORD_RETRY_S = 30.0
MENDABLE = (errno.ENOSPC, errno.EMFILE)


class Agent(Protocol):
    """What the child is: it acts on the machine until it ends."""

    process: Process

    def begin(self) -> None: ...


MakeAgent = Callable[[Process, dict[str, str]], Agent]
"""(the child's process, the words of the spawn) -> the agent.  Raises OSError: no such program."""


class VirtualShim:
    def __init__(
        self, machine: Machine, process: Process, words: dict[str, str], make_agent: MakeAgent
    ) -> None:
        self._machine = machine
        self._words = words
        self._make_agent = make_agent
        self.process = process
        process.idles = True
        self.stem = words["stem"]
        self.child: Process | None = None
        self._started_at = machine.wall()
        self._started = machine.monotonic()
        self._reason = "exited"
        self._seen: set[Process] = set()
        self._concluded = False
        process.on_signal = self._heard
        self._after(EXEC_S_MAX + machine.rng.uniform(0.001, STARTS_WITHIN_S), self._start)

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        def if_alive() -> None:
            if self.process.is_alive:
                act()

        self._machine.clock.after(delay_s, if_alive)

    # -- the child's life --------------------------------------------------------------------

    def _start(self) -> None:
        machine = self._machine
        if f"{self.stem}.stream.jsonl" in machine.files:
            machine.end(self.process, status=3)
            return
        machine.create(f"{self.stem}.stream.jsonl")
        machine.create(f"{self.stem}.stderr.log")
        child: Process | None = None
        try:
            child = machine.start(
                "child", parent=self.process, environment=self.process.environment
            )
            agent = self._make_agent(child, self._words)
        except OSError as fault:
            if child is not None:
                machine.end(child)
            self._conclude("spawn_failed", error=str(fault), number=fault.errno or 0)
            return
        self.child = child
        child.on_death = self._child_ended
        agent.begin()
        self._after(float(self._words["deadline_s"]), self._deadline)
        # Killed in between, it leaves a child that nobody has written down.
        self._after(machine.rng.choice((0.0, 0.002)), self._identify)

    def _identify(self) -> None:
        assert self.child is not None
        record = {
            "shim": _pair(self.process),
            "child": _pair(self.child),
            "started_at": self._started_at,
            "started_monotonic": self._started,
            "deadline_s": float(self._words["deadline_s"]),
            "boot_id": self._machine.host().boot_id,
        }
        try:
            self._write_record("shim", record)
        except OSError:
            if self.child.is_alive:
                self._after(1.0, self._identify)

    def _child_ended(self) -> None:
        if self.process.is_alive:
            self._after(0.001, lambda: self._sweep("orphan_wait_s"))

    # -- the ladder ----------------------------------------------------------------------------

    def _heard(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._after(0.0, lambda: self._stop("stopped"))

    def _deadline(self) -> None:
        self._stop("deadline")

    def _stop(self, reason: str) -> None:
        if self.child is None:  # it is only just starting
            self._after(STARTS_WITHIN_S, lambda: self._stop(reason))
        elif self._reason == "exited" and self.child.is_alive:
            self._reason = reason
            self._machine.signal(self.child.pid, signal.SIGINT)
            self._after(float(self._words["interrupt_wait_s"]), lambda: self._sweep_if_it_lives())

    def _sweep_if_it_lives(self) -> None:
        if self.child is not None and self.child.is_alive:
            self._sweep("terminate_wait_s")

    def _sweep(self, wait: str) -> None:
        if self._reason != "exited":
            wait = "terminate_wait_s"
        left = self._left()
        self._seen.update(left)
        for process in left:
            if process.is_alive:
                self._machine.signal(process.pid, signal.SIGTERM)
        if self._left():
            self._after(float(self._words[wait]), self._kill_all)
        else:
            self._kill_all()

    def _kill_all(self) -> None:
        for process in self._left():
            self._seen.add(process)
            if process.is_alive:
                self._machine.signal(process.pid, signal.SIGKILL)
        if not self._concluded:
            self._conclude(self._reason)

    def _left(self) -> list[Process]:
        return self._machine.descendants([self.process])

    # -- the records -----------------------------------------------------------------------------

    def _conclude(self, reason: str, *, error: str = "", number: int = 0) -> None:
        self._concluded = True
        status = self.child.status if self.child is not None else 0
        record = {
            "reason": reason,
            "error": error,
            "errno": number,
            "started_at": self._started_at,
            "ended_at": self._machine.wall(),
            "duration_s": round(self._machine.monotonic() - self._started, 6),
            "code": None if status < 0 else status,
            "signal": -status if status < 0 else None,
            "descendants_ended": len(self._seen - {self.child}),
            "survivors": len(self._left()),
        }
        give_up_at = self._machine.monotonic() + RECORD_RETRY_S

        def write() -> None:
            try:
                self._write_record("exit", record)
            except OSError as fault:
                if fault.errno in MENDABLE and self._machine.monotonic() < give_up_at:
                    self._after(0.25, write)
                else:
                    self._machine.end(self.process, status=1)
                return
            self._after(self._machine.rng.choice((0.0, 0.004)), self._sync_and_go)

        # Killed in between, it has ended everybody and leaves no record.
        self._after(self._machine.rng.choice((0.0, 0.004)), write)

    def _sync_and_go(self) -> None:
        path = f"{self.stem}.exit.json"
        file = self._machine.files.get(path)
        if file is not None:
            try:
                self._machine.sync(file, path)
            except OSError:
                self._machine.end(self.process, status=1)
                return
        self._machine.end(self.process)

    def _write_record(self, kind: str, record: dict[str, object]) -> None:
        """Renamed into place whole.  Until it is synced, a loss of power may take the content."""
        data = (json.dumps(record) + "\n").encode()
        if self._machine.room is not None and self._machine.room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        path = f"{self.stem}.{kind}.json"
        file = self._machine.files[path] = File()
        self._machine.write_to(file, path, data)


def _pair(process: Process) -> dict[str, int]:
    return {"pid": process.pid, "start_time": process.start_time}
