"""How much memory children may still take, and whether the kernel has begun to end processes.

What is available is the machine's, or what is left below the limit of a control group that we
are in (a container, a service with MemoryMax), whichever is less.

Invariant: a figure that the kernel does not tell is None, and never a guess.
"""

import os
import sys
from functools import cache
from pathlib import Path

import psutil

PRESSURE_MIN = 10.0
"""Per cent of the last ten seconds in which something stood still for want of memory."""
LIMIT_BYTES_MAX = 1 << 60
"""A larger figure is cgroup v1's way to say that there is no limit."""


def available_bytes() -> int | None:
    left = [psutil.virtual_memory().available]
    left += [room for group in _groups() if (room := _room_in(group)) is not None]
    return min(left)


def oom_kills() -> int:
    """How many processes this kernel has ended because memory ran out; 0 where it does not say."""
    for line in _text("/proc/vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def is_under_pressure() -> bool:
    """Whether processes stand still for want of memory just now.  Linux 4.20."""
    for line in _text("/proc/pressure/memory").splitlines():
        if line.startswith("some "):
            average = line.split()[1].partition("=")[2]
            return float(average) >= PRESSURE_MIN
    return False


@cache
def _groups() -> tuple[Path, ...]:
    """Our memory control group and those above it, as far as they are to be seen."""
    return memory_groups(_text("/proc/self/cgroup"), _text("/proc/self/mountinfo"))


def memory_groups(own: str, mounts: str) -> tuple[Path, ...]:
    """``own``: /proc/self/cgroup; ``mounts``: /proc/self/mountinfo."""
    paths: dict[str, str] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "memory" in controllers.split(","):
            paths["cgroup" if controllers else "cgroup2"] = path
    found: list[Path] = []
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = [*right.split(None, 2), "", "", ""][:3]
        is_memory = kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(","))
        if not is_memory or kind not in paths:
            continue
        root, mounted = left.split()[3:5]
        path = paths[kind]
        if root != "/":  # a container that sees only its own part of the tree
            path = path[len(root) :] if (path + "/").startswith(root + "/") else "/"
        top = Path(mounted)
        group = top / path.lstrip("/")
        found += [group, *(above for above in group.parents if above.is_relative_to(top))]
    return tuple(found)


def _room_in(group: Path) -> int | None:
    """Below the group's own limit: what is used, without what the kernel can drop at once."""
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
    if limit is None or used is None or limit > LIMIT_BYTES_MAX:
        return None
    files = {"inactive_file": 0, "total_inactive_file": 0}
    for line in _text(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in files:
            files[name] = int(value)
    droppable = files["total_inactive_file"] or files["inactive_file"]
    return max(0, limit - max(0, used - droppable))


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: str | Path) -> str:
    if sys.platform != "linux":
        return ""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.read(file.fileno(), 1 << 20).decode("ascii", "replace")
    except OSError:
        return ""
