"""Kill points: one system call of the driver, and what happens to it instead.

strace holds the driver's own threads and lets go of each child at its execve (``-b execve``).
It counts calls per thread; a path narrows the count to one file, so that a number names
one write of it.  Invariant: fired() is proven by strace's log, never presumed.
"""

import re
import signal
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.killpoints.batch import Batch

JOURNAL = "events.jsonl"
SHORT_BYTES = 7


class Fault(StrEnum):
    KILL = "kill"
    """SIGKILL to the driver at the call's beginning: it is not made."""
    EIO = "EIO"
    ENOSPC = "ENOSPC"
    SHORT = "short"
    """The disk takes some bytes, says so, and the next call would tell why."""
    ROLLBACK = "EIO, killed in the roll-back"


WHAT: dict[Fault, str] = {
    Fault.KILL: "signal=KILL",
    Fault.EIO: "error=EIO",
    Fault.ENOSPC: "error=ENOSPC",
    Fault.SHORT: f"retval={SHORT_BYTES}",
    Fault.ROLLBACK: "error=EIO",
}


@dataclass(frozen=True, order=True)
class Point:
    call: str
    number: int
    """The how manieth, of the thread that comes to it first."""
    fault: Fault
    path: str = ""
    """Counted on this file alone, relative to the run's directory."""

    @property
    def lane(self) -> tuple[str, str, Fault]:
        """What it shares with the points before and after it."""
        return self.call, self.path, self.fault

    @property
    def ends_by_signal(self) -> bool:
        return self.fault in (Fault.KILL, Fault.ROLLBACK)

    def __str__(self) -> str:
        return f"{self.fault} at {self.call} {self.number}" + f" of {self.path}" * bool(self.path)


def strace(batch: Batch, log: Path, point: Point) -> list[str]:
    """What a driver is run under, to come to the point."""
    inject = [f"{point.call}:{WHAT[point.fault]}:when={point.number}"]
    if point.fault is Fault.ROLLBACK:
        inject.append("ftruncate:signal=KILL")
    path = ["-P", str(batch.store.path / point.path)] if point.path else []
    calls = ",".join(one.partition(":")[0] for one in inject)
    return [
        *("strace", "-f", "-b", "execve", "-y", "-e", "signal=kill", "-o", str(log)),
        *(*path, "-e", f"trace={calls}"),
        *(word for one in inject for word in ("-e", f"inject={one}")),
    ]


def watching(log: Path) -> list[str]:
    """The same without a fault, for a census of what there is."""
    calls = "write,fdatasync,fsync,rename,clone3"
    return [
        *("strace", "-f", "-b", "execve", "-y", "-e", "signal=kill", "-o", str(log)),
        *("-e", f"trace={calls}"),
    ]


_BEGUN = re.compile(r"^(\d+) +(\w+)\((?:\d+<([^>]*)>|\"([^\"]*)\")?")
_INJECTED = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+).*\(INJECTED\)$")


@dataclass(frozen=True)
class Trace:
    """What strace saw: per thread the files of its calls, in order."""

    calls: dict[tuple[str, str], list[str]]
    """(thread, call) -> files."""
    injected: tuple[tuple[str, str], ...]
    killed: frozenset[str]

    @classmethod
    def read(cls, log: Path) -> "Trace":
        calls: dict[tuple[str, str], list[str]] = defaultdict(list)
        injected = []
        killed = set()
        for line in log.read_text("utf-8", "replace").splitlines():
            if (begun := _BEGUN.match(line)) is not None:
                calls[begun[1], begun[2]].append(begun[3] or begun[4] or "")
            if (done := _INJECTED.match(line)) is not None:
                injected.append((done[1], done[2]))
            if line.endswith("+++ killed by SIGKILL +++"):
                killed.add(line.split()[0])
        return cls(dict(calls), tuple(injected), frozenset(killed))

    def fired(self, point: Point, status: int) -> str | None:
        """The kind of file it hit; None where the driver never came to it."""
        if point.ends_by_signal and (status != -signal.SIGKILL or not self.killed):
            return None
        for (thread, call), files in self.calls.items():
            is_hit = call == point.call and len(files) >= point.number
            if point.fault is Fault.KILL:
                is_hit = is_hit and len(files) == point.number  # it is that thread's last
            else:
                is_hit = is_hit and (thread, call) in self.injected
            if is_hit:
                return kind_of(files[point.number - 1])
        return None

    def most(self, call: str, path: str = "") -> int:
        """Calls of the thread that made most; of one file where ``path`` is its end."""
        counts: Counter[str] = Counter()
        for (thread, name), files in self.calls.items():
            counts[thread] += sum(name == call and file.endswith(path) for file in files)
        return max(counts.values(), default=0)

    def files(self, call: str, ending: str) -> list[str]:
        """The distinct files of a call, whose names end so."""
        found = {f for (_, name), files in self.calls.items() if name == call for f in files}
        return sorted(file for file in found if file.endswith(ending))


def kind_of(file: str) -> str:
    """The file of a call, as a row of the table."""
    name = file.rpartition("/")[2]
    for ending in (".prompt.txt", ".work.json"):
        if name.endswith(ending):
            return "*" + ending
    if ".json.new-" in name:
        return "NN-stage.json"
    if file.startswith(("pipe:", "socket:")):
        return "pipes to git"
    return name or "spawns and threads"


def catalogue(batch: Batch, trace: Trace, *, every: int = 1) -> list[Point]:
    """Every point of the batch, by the census ``trace``.

    The journal, and what the worker threads write, are counted per file.  All else is written
    by the main thread, which is ahead of the others with any number of writes.
    ``every``: of the errors outside the journal every how manieth; kills are never left out.
    """
    points: list[Point] = []
    errors_seen = 0

    def lane(call: str, faults: tuple[Fault, ...], path: str = "") -> None:
        nonlocal errors_seen
        for fault in faults:
            for number in range(1, trace.most(call, path) + 1):
                if fault is not Fault.KILL and path != JOURNAL:
                    errors_seen += 1
                    if errors_seen % every:
                        continue
                points.append(Point(call, number, fault, path))

    errors = (Fault.EIO, Fault.ENOSPC)
    lane("write", (Fault.KILL, *errors, Fault.SHORT), JOURNAL)
    lane("fdatasync", (Fault.KILL, *errors, Fault.ROLLBACK), JOURNAL)
    lane("fsync", (Fault.KILL, *errors), "driver.jsonl")
    for ending in (".prompt.txt", ".work.json"):
        for file in trace.files("write", ending):
            path = file.partition(str(batch.store.path) + "/")[2]
            lane("write", (Fault.KILL, *errors), path)
            lane("fsync", (Fault.KILL, *errors), path)
    lane("rename", (Fault.KILL, *errors))
    lane("write", (Fault.KILL, *errors))
    lane("clone3", (Fault.KILL,))
    return points
