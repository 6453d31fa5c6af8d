"""A control group for one dispatch: membership that no process can shed, and a kill that is atomic.

Never relied upon: most containers and many sessions do not let one be made.  Where it can be
(cgroup v2, or the unified part of a hybrid of v1 and v2, below our own group), it finds what
has left its parent, its session and its environment behind, also when the shim is dead.

Standard library only, and little of it: the shim imports this file in every dispatch.

Invariant: only a group that carries a shim's own (pid, start time) in its name is read, killed
or removed, and nobody is in it but descendants of that shim's child.
"""

import os
import sys
import time

REMOVE_TRIES = 20


def name_of(shim: tuple[int, int]) -> str:
    return f"orchestrator-{shim[0]}-{shim[1]}"


def make(shim: tuple[int, int]) -> str:
    """The shim's group, empty; its path, "" where none can be made."""
    above = _own()
    path = f"{above}/{name_of(shim)}"
    try:
        if above:
            _tidy(above)
            os.mkdir(path, 0o755)
            return path
    except OSError:  # read-only, or not ours: as in most containers
        pass
    return ""


def enter(path: str, pid: int) -> bool:
    """Put a process in.  What it starts from now on is in too; what it has started is not.

    The kernel takes about 11 ms over it, whoever moves whom.
    """
    return _write(path + "/cgroup.procs", str(pid))


def members(path: str) -> list[int]:
    """Pids, those in groups below it included.  [] also where there is no such group."""
    found: list[int] = []
    for directory in _tree(path):
        found += [int(word) for word in _read(directory + "/cgroup.procs").split()]
    return found


def kill(path: str) -> bool:
    """SIGKILL for everybody in it at one instant, however fast they fork.  Linux 5.14."""
    return bool(path) and _write(path + "/cgroup.kill", "1")


def remove(path: str) -> bool:
    """Once nobody is in it.  What has just been killed may take a moment to leave."""
    for _ in range(REMOVE_TRIES if path else 0):
        try:
            for directory in reversed(_tree(path)):
                os.rmdir(directory)
            return True
        except FileNotFoundError:
            return True
        except OSError:
            time.sleep(0.001)
    return False


def _tidy(above: str) -> None:
    """Remove what shims that were killed have left behind, where nobody is in it."""
    for name in os.listdir(above):
        word, _, rest = name.partition("-")
        if word == "orchestrator" and not os.path.exists(f"/proc/{rest.partition('-')[0]}"):
            try:
                os.rmdir(f"{above}/{name}")
            except OSError:  # somebody is: the next driver will see to them
                continue


def _own() -> str:
    """Our own group's directory, "" where it is not to be seen."""
    if sys.platform != "linux":
        return ""
    group = mounted = root = ""
    for line in _read("/proc/self/cgroup").splitlines():
        if line.startswith("0::/"):
            group = line[3:]
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, mounted = left.split()[3:5]
    if not group or not mounted:
        return ""
    if root != "/":  # a container that sees only its own part of the tree
        if not (group + "/").startswith(root + "/"):
            return ""
        group = group[len(root) :]
    return (mounted + group).rstrip("/")


def _tree(path: str) -> list[str]:
    """``path`` and what is below it, each after what it is in."""
    found = [path] if path else []
    for directory in found:
        try:
            found += [
                entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)
            ]
        except OSError:
            continue
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, text.encode("ascii"))
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
