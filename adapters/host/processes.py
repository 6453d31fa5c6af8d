"""The kernel's table of processes: who runs, who descends from whom, who carries our tag.

Standard library only, and little of it: the shim imports this file in every dispatch.
Everything that differs between platforms about processes is here.

Linux: /proc and pidfds.  macOS: libproc for the table, sysctl(KERN_PROCARGS2) for
environments; there is no pidfd, so a signal is sent right after the identity was
compared, within microseconds.

Invariant: nothing is signalled whose pid and start time do not both match.
"""

# The C half of signal alone: the other half imports enum, 9 ms and 0.8 MB in every shim.
import _signal  # type: ignore[import-not-found]
import os
import sys

if False:  # typing.TYPE_CHECKING, without the import of typing
    from collections.abc import Callable

SIGKILL = 9

Identity = tuple[int, int]
"""pid, and the kernel's own start time: clock ticks since boot, or epoch microseconds."""


class Entry:
    """One row of the table."""

    __slots__ = ("group", "parent", "session", "start_time")

    def __init__(self, parent: int, group: int, session: int, start_time: int) -> None:
        self.parent = parent
        self.group = group
        self.session = session
        self.start_time = start_time


def start_time_of(pid: int) -> int | None:
    """When the kernel says that ``pid`` began.  None: no such process, or it has ended."""
    entry = _entry(pid)
    return None if entry is None else entry.start_time


def is_alive(identity: Identity) -> bool:
    pid, start_time = identity
    return start_time_of(pid) == start_time


def signal_if_same(identity: Identity, signal: int) -> bool:
    """Send ``signal`` to that very process.  False: it has ended, or may not be signalled."""
    pid, start_time = identity
    fd = _open_pidfd(pid)
    try:
        if start_time_of(pid) != start_time:
            return False
        if fd is None:
            os.kill(pid, signal)
        else:
            _signal.pidfd_send_signal(fd, signal)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if fd is not None:
            os.close(fd)
    return True


def family(
    roots: list[Identity], tag: bytes = b"", members: "Callable[[], list[int]]" = list
) -> list[Identity]:
    """The live descendants of ``roots``, what shares a group or session that one of them leads,
    what carries ``tag`` in its environment, ``members`` of a control group, and the descendants
    of all these.

    Left out are the roots themselves and the caller.  A root that has ended counts for nothing:
    its pid may be a stranger's by now.
    """
    table = _table()
    caller = os.getpid()
    grouped = set(members())  # read after the table: a pid that changed hands will not match
    leaders = {pid for pid, began in roots if pid in table and table[pid].start_time == began}
    found = set(leaders)
    children: dict[int, list[int]] = {}
    for pid, entry in table.items():
        children.setdefault(entry.parent, []).append(pid)
        related = entry.group in leaders or entry.session in leaders or pid in grouped
        if pid != caller and (related or (tag and _has_tag(pid, tag))):
            found.add(pid)
    frontier = list(found)
    while frontier:
        for pid in children.get(frontier.pop(), ()):
            if pid not in found and pid != caller:
                found.add(pid)
                frontier.append(pid)
    known = [(pid, table[pid].start_time) for pid in sorted(found - leaders) if pid != caller]
    # Born since: they are there, but no identity is known that could be signalled.
    return known + [(pid, -1) for pid in sorted(grouped - table.keys())]


if sys.platform == "linux":

    def boot_id() -> str:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()

    def machine_uuid() -> str:
        return ""  # /etc/machine-id is a file: see local.py

    def pid_namespace() -> str:
        try:
            return os.readlink("/proc/self/ns/pid")
        except OSError:
            return ""

    def become_subreaper() -> bool:
        """Orphaned descendants become children of the caller: wait() tells when none is left."""
        pr_set_child_subreaper = 36
        try:
            # The C half of ctypes alone: the Python half costs 5 ms and 0.5 MB for this one call.
            import _ctypes

            prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
            return bool(_ctypes.call_function(prctl, (pr_set_child_subreaper, 1, 0, 0, 0)) == 0)
        except (ImportError, AttributeError, OSError):
            return False

    def children_of(pid: int) -> list[int]:
        """The living and the dead, where the kernel tells (CONFIG_PROC_CHILDREN): in 0.02 ms."""
        try:
            fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
        except OSError:
            return []
        try:
            return [int(word) for word in os.read(fd, 65536).split()]
        except OSError:
            return []
        finally:
            os.close(fd)

    def _open_pidfd(pid: int) -> int | None:
        try:
            return os.pidfd_open(pid)
        except OSError:  # an older kernel, no descriptors left, or no such process: see below
            return None

    def _entry(pid: int) -> Entry | None:
        try:
            fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            line = os.read(fd, 4096)
        except ProcessLookupError:  # it ended between open and read
            return None
        finally:
            os.close(fd)
        # The name, in parentheses, may hold anything: also spaces and parentheses.
        fields = line[line.rfind(b")") + 2 :].split()
        if len(fields) < 20 or fields[0] in b"ZX":
            return None
        return Entry(int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))

    def _pids() -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def _environment(pid: int) -> bytes:
        try:
            fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # also kernel threads
            return b""
        try:
            parts = []
            while part := os.read(fd, 65536):
                parts.append(part)
            return b"".join(parts)
        except (ProcessLookupError, PermissionError):
            return b""
        finally:
            os.close(fd)

else:

    def boot_id() -> str:
        """The boot session's UUID; it changes with every start of the machine."""
        return _sysctl_by_name(b"kern.bootsessionuuid")

    def machine_uuid() -> str:
        return _sysctl_by_name(b"kern.uuid")

    def pid_namespace() -> str:
        return ""

    def become_subreaper() -> bool:
        return False

    def children_of(pid: int) -> list[int]:
        return []

    def _open_pidfd(pid: int) -> int | None:
        return None

    def _entry(pid: int) -> Entry | None:
        import ctypes
        import struct

        # struct proc_bsdinfo of <sys/proc_info.h>, PROC_PIDTBSDINFO = 3; SZOMB = 5.
        layout = struct.Struct("=12I16s32s5Ii2Q")
        buffer = ctypes.create_string_buffer(layout.size)
        libc = ctypes.CDLL(None)
        if libc.proc_pidinfo(pid, 3, ctypes.c_uint64(0), buffer, layout.size) != layout.size:
            return None
        fields = layout.unpack(buffer.raw)
        if fields[1] == 5:
            return None
        try:
            session = os.getsid(pid)
        except OSError:
            session = 0
        return Entry(fields[4], fields[15], session, fields[20] * 1_000_000 + fields[21])

    def _pids() -> list[int]:
        import ctypes

        libc = ctypes.CDLL(None)
        room = libc.proc_listallpids(None, 0) + 512
        pids = (ctypes.c_int * room)()
        count = libc.proc_listallpids(pids, ctypes.sizeof(pids))
        return [pid for pid in pids[: max(count, 0)] if pid > 0]

    def _environment(pid: int) -> bytes:
        import ctypes

        # CTL_KERN, KERN_PROCARGS2: argc, the program's path, its arguments, its environment.
        name = (ctypes.c_int * 3)(1, 49, pid)
        size = ctypes.c_size_t(1 << 20)
        buffer = ctypes.create_string_buffer(size.value)
        if ctypes.CDLL(None).sysctl(name, 3, buffer, ctypes.byref(size), None, 0) != 0:
            return b""
        return buffer.raw[: size.value]

    def _sysctl_by_name(name: bytes) -> str:
        import ctypes

        size = ctypes.c_size_t(256)
        buffer = ctypes.create_string_buffer(size.value)
        if ctypes.CDLL(None).sysctlbyname(name, buffer, ctypes.byref(size), None, 0) != 0:
            return ""
        return buffer.value.decode("ascii", "replace")


def _table() -> dict[int, Entry]:
    table = {}
    for pid in _pids():
        entry = _entry(pid)
        if entry is not None:
            table[pid] = entry
    return table


def _has_tag(pid: int, tag: bytes) -> bool:
    return tag + b"\0" in _environment(pid)
