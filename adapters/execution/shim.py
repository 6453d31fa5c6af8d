"""The small parent of a dispatch's child.  It outlives the driver.

    python -I -S shim_start.py stem=… cwd=… stdin=… deadline_s=… … -- program argument…

Descriptor 3 is the dispatch's lock file, already locked, and 4 its place among the children of the
host, or nothing: they are held for as long as the shim lives, and the child gets neither.  The
environment is the child's, tags included.  Words instead of JSON because importing json costs
every dispatch 12 ms.

It starts the child in a session of its own, with files for its three streams; writes who both
are to ``<stem>.shim.json``; waits for the child's end, the deadline or a SIGTERM (that is how a
driver says stop: SIGINT to the child's group, then SIGTERM, then SIGKILL to all descendants);
ends every descendant that is left; writes ``<stem>.exit.json``, synced; and is gone.

Invariant: once the exit record is there, no descendant lives but the survivors it counts.  The
record is missing only where the shim was killed, or the disk was full for RECORD_RETRY_S.

Descendants are found in three ways, each of which does where the others fail: orphans become
children of ours (subreaper); they carry the tag in their environment, or share a session (macOS
has only this: adapters/host/processes.py); and they are in a control group, where one can be
made (adapters/host/cgroup.py).
"""

# The C half of signal alone: the other half imports enum, 9 ms and 0.8 MB in every shim.
import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import sys
import time

if __name__ != "shim":
    from adapters.execution.shim_record import Value, write_record
    from adapters.host import cgroup, processes
else:  # shim_start.py says where to find them
    import cgroup  # type: ignore[import-not-found,no-redef]
    import processes  # type: ignore[import-not-found,no-redef]
    from shim_record import Value, write_record  # type: ignore[import-not-found,no-redef]

SCHEMA = 1
LOCK_FD = 3
SLOT_FD = 4
KILL_WAIT_S = 5.0
"""How long what was sent SIGKILL may take to go, before it is counted as a survivor."""
CHASE_S = 0.02
"""Of each round of that."""
LOOKS = 5
"""How often the table is read where somebody is there and nobody is seen."""
REAPED_MAX = 1000
"""At a time: they may die as fast as they are collected."""
RECORD_RETRY_S = 30.0
"""How long a full disk may keep the exit record from being written."""
GROUP_AFTER_S = 0.03
"""A child that ends sooner is not put into a group: that would take longer than it lives."""
MENDABLE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
STOP_SIGNAL = int(_signal.SIGTERM)
ALREADY_STARTED = 3
"""Exit status where the stem's stream exists: a dispatch is never started twice."""


class Shim:
    def __init__(self, words: dict[str, str], argv: list[str]) -> None:
        self.argv = argv
        self.stem = words["stem"]
        self.cwd, self.is_worktree = words["cwd"], bool(words["is_worktree"])
        self.stdin = words["stdin"]
        self.drop = words["drop"].split(",")
        """Names in our environment that are not for the child: what our own start needed."""
        self.interrupt_wait_s = float(words["interrupt_wait_s"])
        self.terminate_wait_s = float(words["terminate_wait_s"])
        self.orphan_wait_s = float(words["orphan_wait_s"])
        self.deadline_s = float(words["deadline_s"])
        self.started_at = time.time()
        self.started = time.monotonic()
        self.tag = f"ORCHESTRATOR_STEM={self.stem}".encode("utf-8", "surrogateescape")
        self.me = (os.getpid(), processes.start_time_of(os.getpid()) or 0)
        self.child: processes.Identity | None = None
        self.status: int | None = None
        """The child's wait status, once it has ended."""
        self.cpu_s = 0.0
        self.max_rss_kb = 0
        """Of the largest process that was collected."""
        self.stopping = False
        self.identified = False
        self.alarm, self.alarm_end = os.pipe()
        self.poll = select.poll()
        self.poll.register(self.alarm, select.POLLIN)
        self.is_subreaper = processes.become_subreaper()
        self.cgroup = ""
        """The path of the child's control group."""

    def prepare(self) -> None:
        """Leave the driver's session; hear signals through a pipe."""
        if os.getsid(0) != os.getpid():
            os.setsid()
        for end in (self.alarm, self.alarm_end):
            os.set_blocking(end, False)
        for name in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT):
            _signal.signal(name, _signal.SIG_IGN)
        for name in (_signal.SIGCHLD, STOP_SIGNAL):
            _signal.signal(name, _heard)
        _signal.set_wakeup_fd(self.alarm_end, warn_on_full_buffer=False)
        for held in (LOCK_FD, SLOT_FD):
            os.set_inheritable(held, False)

    def start(self) -> None:
        """Start the child.  Its streams become our own first: so a trace of ours is kept too."""
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        os.dup2(os.open(self.stem + ".stream.jsonl", new, 0o666), 1)
        os.dup2(os.open(self.stem + ".stderr.log", new, 0o666), 2)
        os.dup2(os.open(self.stdin, os.O_RDONLY), 0)
        self.enter()
        pid = os.posix_spawnp(
            self.argv[0],
            self.argv,
            {name: value for name, value in os.environ.items() if name not in self.drop},
            setsid=True,
            setsigmask=(),
            setsigdef=_signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP},
        )
        self.child = (pid, processes.start_time_of(pid) or 0)
        self.cgroup = cgroup.make(self.me)
        os.chdir("/")

    def enter(self) -> None:
        """Go to the working directory; to a worktree through no link, which an agent may make."""
        os.chdir(self.cwd)
        is_there = os.path.realpath(self.cwd) == self.cwd and os.path.samefile(".", self.cwd)
        if self.is_worktree and not is_there:
            raise OSError(errno.ELOOP, "a link leads to its working directory", self.cwd)

    def identify(self) -> None:
        """Write who we are.  On a full disk it is tried again while the child runs."""
        record = self._header()
        record["started_monotonic"] = self.started
        record["deadline_s"] = self.deadline_s
        record["boot_id"] = processes.boot_id()
        record["pid_namespace"] = processes.pid_namespace()
        record["cgroup"] = self.cgroup
        try:
            write_record(self.stem + ".shim.json", record, synced=False)
            self.identified = True
        except OSError:
            pass

    def watch(self) -> str:
        """Wait for the child's end, its deadline, or the driver's word to stop."""
        deadline = self.started + self.deadline_s
        is_grouped = not self.cgroup
        while self.reap() and self.status is None:
            if self.stopping:
                return "stopped"
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return "deadline"
            if not self.identified:
                self.identify()
            if not is_grouped and time.monotonic() >= self.started + GROUP_AFTER_S:
                is_grouped = True
                self.enter_group()
                continue
            pause_s = left_s if self.identified else min(left_s, 1.0)
            self.wait(pause_s if is_grouped else min(pause_s, GROUP_AFTER_S))
        return "exited"

    def enter_group(self) -> None:
        assert self.child is not None
        if not cgroup.enter(self.cgroup, self.child[0]):
            cgroup.remove(self.cgroup)
            self.cgroup = ""

    def interrupt(self) -> None:
        """The first rung: what Ctrl-C in a terminal would do to the child."""
        assert self.child is not None
        try:  # noqa: SIM105 - contextlib would be one import more
            os.killpg(self.child[0], _signal.SIGINT)
        except (ProcessLookupError, PermissionError):  # it is dying
            pass
        until = time.monotonic() + self.interrupt_wait_s
        while self.reap() and self.status is None and (left_s := until - time.monotonic()) > 0:
            self.wait(left_s)

    def end_descendants(self, terminate_wait_s: float) -> tuple[int, int]:
        """SIGTERM, and after a wait SIGKILL, until nobody is left; how many ended, how many not."""
        until = time.monotonic() + terminate_wait_s  # looking and signalling are part of the wait
        seen: set[processes.Identity] = set()
        left = self.descendants(seen)
        for identity in left:
            processes.signal_if_same(identity, _signal.SIGTERM)
        while left and (wait_s := until - time.monotonic()) > 0:
            self.wait(wait_s if self.is_subreaper else min(wait_s, 0.05))
            if time.monotonic() < until:
                left = self.descendants(seen)
        until = time.monotonic() + KILL_WAIT_S
        pause_s = 0.001
        while left and time.monotonic() < until:
            cgroup.kill(self.cgroup)
            for identity in left:
                processes.signal_if_same(identity, processes.SIGKILL)
            self.chase()
            self.wait(pause_s)
            pause_s = min(pause_s * 2, 0.02)
            left = self.descendants(seen)
        return len(seen.difference(left)), len(left)

    def chase(self) -> None:
        """SIGKILL for our children, over and over for a moment.

        What forks and ends, on and on, is another process by the time that the whole table is
        read.  But as an orphan it is our child, and as long as we do not collect it, its pid is
        nobody else's.
        """
        until = time.monotonic() + CHASE_S
        while self.is_subreaper and self.reap() and time.monotonic() < until:
            for pid in processes.children_of(self.me[0]):
                try:
                    os.kill(pid, processes.SIGKILL)
                except PermissionError:  # it runs as somebody else
                    return
            os.sched_yield()

    def descendants(self, seen: set[processes.Identity]) -> list[processes.Identity]:
        """Who is left.  ``seen`` collects everybody but the child.

        Where we are the subreaper, having no child left proves that nobody is; the table does
        not, because it cannot be read at one instant: it is read again, a few times.
        """
        left: list[processes.Identity] = []
        for _ in range(LOOKS):
            has_children = self.reap()
            if self.is_subreaper and not has_children:
                return []
            roots = [self.me] if self.child is None else [self.me, self.child]
            tag = b"" if self.is_subreaper else self.tag
            left = processes.family(roots, tag, self.members)
            seen.update(one for one in left if one[1] >= 0)
            if self.child is not None and self.status is None:
                left.insert(0, self.child)  # first: it shall not act on its helpers' deaths
            if left or not (self.is_subreaper or self.members()):
                return left
            self.wait(0.001)
        # They are there, and never at the time of a look: not to be signalled by what is known.
        return [(pid, -1) for pid in processes.children_of(self.me[0]) or self.members() or [0]]

    def members(self) -> list[int]:
        return cgroup.members(self.cgroup)

    def reap(self) -> bool:
        """Collect the dead.  False: no child of ours is left, whoever it was."""
        for _ in range(REAPED_MAX):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.cpu_s += usage.ru_utime + usage.ru_stime
            if self.child is not None and pid == self.child[0]:
                self.status = status
            rss_kb = usage.ru_maxrss // (1 if sys.platform == "linux" else 1024)
            self.max_rss_kb = max(self.max_rss_kb, rss_kb)
        return True

    def wait(self, at_most_s: float) -> None:
        self.poll.poll(min(at_most_s, 3600.0) * 1000 + 1)
        try:
            if STOP_SIGNAL in os.read(self.alarm, 512):
                self.stopping = True
        except BlockingIOError:
            pass

    def conclude(self, reason: str, error: str, number: int, ended: int, survivors: int) -> None:
        record = self._header()
        killed = self.status is not None and os.WIFSIGNALED(self.status)
        exited = self.status is not None and os.WIFEXITED(self.status)
        record["code"] = os.WEXITSTATUS(self.status or 0) if exited else None
        record["signal"] = os.WTERMSIG(self.status or 0) if killed else None
        record["reason"] = reason
        record["error"] = error
        record["errno"] = number
        record["ended_at"] = time.time()
        record["duration_s"] = round(time.monotonic() - self.started, 6)
        record["descendants_ended"] = ended
        record["survivors"] = survivors
        record["max_rss_kb"] = self.max_rss_kb
        record["cpu_s"] = round(self.cpu_s, 6)
        give_up_at = time.monotonic() + RECORD_RETRY_S
        while True:
            try:
                write_record(self.stem + ".exit.json", record, synced=True)
                return
            except OSError as fault:
                if fault.errno not in MENDABLE or time.monotonic() > give_up_at:
                    raise
            time.sleep(0.25)

    def _header(self) -> dict[str, Value]:
        return {
            "schema": SCHEMA,
            "shim": _identity(self.me),
            "child": None if self.child is None else _identity(self.child),
            "started_at": self.started_at,
        }


def run(shim: Shim) -> None:
    shim.prepare()
    try:
        shim.start()
    except FileExistsError:
        os._exit(ALREADY_STARTED)
    except OSError as fault:
        shim.conclude("spawn_failed", _why(shim, fault), fault.errno or 0, 0, 0)
        return
    shim.identify()
    reason = shim.watch()
    if reason != "exited":
        shim.interrupt()
    wait_s = shim.orphan_wait_s if reason == "exited" else shim.terminate_wait_s
    ended, survivors = shim.end_descendants(wait_s)
    cgroup.remove(shim.cgroup)
    shim.conclude(reason, "", 0, ended, survivors)


def _why(shim: Shim, fault: OSError) -> str:
    """One line for a person: what could not be started, and what stood in the way."""
    program = shim.argv[0]
    if not os.path.isdir(shim.cwd):
        return f"cannot start {program}: its working directory {shim.cwd} is gone"
    about = f" ({fault.filename})" if fault.filename not in (None, program) else ""
    if fault.errno == errno.ENOENT and os.path.exists(program):
        about = " (the interpreter that its first line names)"
    return f"cannot start {program}: {fault.strerror}{about}"


def _identity(identity: processes.Identity) -> dict[str, Value]:
    return {"pid": identity[0], "start_time": identity[1]}


def _heard(number: int, frame: object) -> None:
    """Only so that the number is written to the alarm pipe."""


def main(arguments: list[str]) -> None:
    # Nothing that the driver was started with may be held open by a child for hours.
    os.closerange(SLOT_FD + 1, min(os.sysconf("SC_OPEN_MAX"), 65536))
    split = arguments.index("--")
    words = dict(word.split("=", 1) for word in arguments[:split])
    run(Shim(words, arguments[split + 1 :]))
