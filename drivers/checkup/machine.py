"""The machine: its programs, its kernel's features, its limits and its clock."""

import ctypes
import os
import platform
import re
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import psutil

from drivers.checkup.check import Check, fail, ok, output_of, warn

GIT_MIN = (2, 34)
OPEN_FILES_MIN = 256
OPEN_FILES_WANTED = 1024
PROCESSES_WANTED = 512
MEMORY_WANTED_BYTES = 1_000_000_000
BUILT_AT = 1_735_689_600.0
"""2025: no clock that is right says less."""

_PR_GET_CHILD_SUBREAPER = 37


def python() -> Check:
    return ok("python", f"{platform.python_version()} ({sys.executable})")


def system() -> Check:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform in ("linux", "darwin"):
        return ok("system", found)
    return fail("system", found, mend="use Linux or macOS; on Windows, WSL 2")


def git() -> Check:
    wanted = ".".join(map(str, GIT_MIN))
    mend = f"install git {wanted} or newer, and see that it is on PATH"
    works, said = output_of(["git", "--version"])
    version = re.search(r"(\d+)\.(\d+)[.\d]*", said)
    if not works or version is None:
        return fail("git", said, mend=mend)
    if (int(version[1]), int(version[2])) < GIT_MIN:
        return fail("git", version[0], mend=mend)
    return ok("git", version[0])


def gh() -> Check:
    if shutil.which("gh") is None:
        return ok("gh", "not on PATH; nothing needs it yet")
    works, said = output_of(["gh", "--version"])
    return ok("gh", said) if works else warn("gh", said, mend="reinstall gh")


def open_files() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _limit("open files", "-n", limit, OPEN_FILES_MIN, OPEN_FILES_WANTED)


def processes() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return _limit("processes", "-u", limit, 64, PROCESSES_WANTED)


def _limit(name: str, flag: str, limit: int, needed: int, wanted: int) -> Check:
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        found = "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit}"
        return ok(name, found)
    mend = f"ulimit {flag} {wanted} (a service: LimitNOFILE, LimitNPROC)"
    found = f"at most {limit}, {wanted} are wanted"
    return (fail if limit < needed else warn)(name, found, mend=mend)


def memory() -> Check:
    available = psutil.virtual_memory().available
    found = f"{available / 1e9:.1f} GB available; a child takes about 0.2 GB, and what its tools do"
    if available < MEMORY_WANTED_BYTES:
        return warn("memory", found, mend="close programs, or run with --max-concurrent 1")
    return ok("memory", found)


def subreaper() -> Check:
    """Whether a shim can inherit the orphans of its child."""
    if sys.platform != "linux":
        return ok("subreaper", "this kernel has none: descendants are found by tag and descent")
    is_one = ctypes.c_int(0)
    if ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_one), 0, 0, 0) != 0:
        mend = "use Linux 3.4 or newer; descendants are found by tag and descent instead"
        return warn("subreaper", "refused by the kernel", mend=mend)
    return ok("subreaper", "available")


def pidfd() -> Check:
    """Whether the end of a process that is not a child can be waited for."""
    if sys.platform != "linux":
        return ok("pidfd", "this kernel has none: processes are compared by start time")
    try:
        descriptor = os.pidfd_open(os.getpid())
        signal.pidfd_send_signal(descriptor, 0)
        os.close(descriptor)
    except OSError as error:
        mend = "use Linux 5.3 or newer, or a sandbox that allows pidfd_open; it is polled instead"
        return warn("pidfd", (error.strerror or str(error)).lower(), mend=mend)
    return ok("pidfd", "available")


def inotify() -> Check:
    """Whether growing files are heard of at once."""
    if sys.platform != "linux":
        return ok("inotify", "this kernel has none: files are looked at in intervals")
    descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_CLOEXEC)
    if descriptor < 0:
        mend = "sudo sysctl fs.inotify.max_user_instances=512; files are looked at in intervals"
        return warn("inotify", os.strerror(ctypes.get_errno()).lower(), mend=mend)
    os.close(descriptor)
    return ok("inotify", "available")


def clock(directory: Path) -> Check:
    """Compare the clock with reason, and with the clock of the file system of the runs."""
    import tempfile

    now = time.time()
    if now < BUILT_AT:
        mend = "set the clock: usage limits end at wall-clock times"
        return fail("clock", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)), mend=mend)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            skew_s = abs(os.fstat(file.fileno()).st_mtime - now)
    except OSError:
        skew_s = 0.0  # the check of that directory says what is wrong with it
    if skew_s > 5:
        mend = "let both machines keep their time by NTP"
        return warn("clock", f"{skew_s:.0f} s apart from the file server's", mend=mend)
    return ok("clock", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))
