"""What trees of processes use: CPU so far, and memory now.  One pass over the kernel's table.

Linux is read by hand because psutil's walk takes ten times as long (a pass is about 3 ms);
elsewhere it is psutil's.

Invariant: the CPU of a tree does not fall by much when a process ends: what the dead have used
is in their parent's figure, and that of orphans in the shim's, which collects them.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adapters.host import processes
from orchestrator.core.model import ProcessIdentity

Tree = Sequence[ProcessIdentity]
"""Its roots: a shim and its child, of which either may be gone."""


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_s: float = 0.0
    """Of the living and of those whom they have collected."""
    resident_bytes: int = 0
    """The sum over the living: pages that several share count for each of them."""


def usage_of(trees: Iterable[Tree]) -> list[Usage]:
    """Of each tree: its roots that live and all their descendants."""
    alive = [
        [root.pid for root in tree if processes.is_alive((root.pid, root.start_time))]
        for tree in trees
    ]
    if not any(alive):
        return [Usage() for _ in alive]
    return _by_table(alive) if sys.platform == "linux" else _by_psutil(alive)


def cpu_of_trees(roots: Tree) -> float:
    """Seconds that ``roots`` and their descendants, living or collected, have used so far."""
    return usage_of([roots])[0].cpu_s


def _by_table(trees: list[list[int]]) -> list[Usage]:
    ticks: dict[int, int] = {}
    pages: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:  # it has just ended
            continue
        try:
            line = os.read(fd, 4096)
        except OSError:
            continue
        finally:
            os.close(fd)
        # After the name, which may hold anything: field 2 is the parent, 12 to 15 the times of
        # the process and of its collected children, 22 its resident pages.
        fields = line[line.rfind(b")") + 2 :].split(None, 22)
        if len(fields) > 21:
            pid = int(name)
            ticks[pid] = sum(map(int, fields[11:15]))
            pages[pid] = int(fields[21])
            children.setdefault(int(fields[1]), []).append(pid)
    tick_s, page_bytes = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found = []
    for roots in trees:
        members = set(roots)
        frontier = list(members)
        while frontier:
            new = [pid for pid in children.get(frontier.pop(), ()) if pid not in members]
            members.update(new)
            frontier += new
        found.append(
            Usage(
                cpu_s=sum(ticks.get(pid, 0) for pid in members) * tick_s,
                resident_bytes=sum(pages.get(pid, 0) for pid in members) * page_bytes,
            )
        )
    return found


def _by_psutil(trees: list[list[int]]) -> list[Usage]:
    import psutil  # here, because most drivers never come to a look

    found = []
    for roots in trees:
        members: dict[int, psutil.Process] = {}
        for pid in roots:
            try:
                top = psutil.Process(pid)
                members |= {one.pid: one for one in (top, *top.children(recursive=True))}
            except psutil.Error:  # it has just ended
                continue
        used_s, resident_bytes = 0.0, 0
        for process in members.values():
            try:
                times, memory = process.cpu_times(), process.memory_info()
            except psutil.Error:
                continue
            used_s += times.user + times.system + times.children_user + times.children_system
            resident_bytes += memory.rss
        found.append(Usage(cpu_s=used_s, resident_bytes=resident_bytes))
    return found
