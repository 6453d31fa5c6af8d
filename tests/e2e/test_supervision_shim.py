"""The shim against children that do what children do: real processes, short waits."""

import contextlib
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from adapters.execution.shim import ALREADY_STARTED
from adapters.host import processes, waiting
from orchestrator.core.model import Cause, ResultStatus
from orchestrator.ports.execution import Observation, Started
from tests.e2e.supervision import QUICK, Bench, until_there

BREED = """
import os, signal, sys, time
for number in range(int(sys.argv[1])):
    pid = os.fork()
    if pid and number % 3 == 1:
        os.waitpid(pid, 0)
    if pid == 0:
        if number % 3 == 0:
            os.setsid()
        if number % 3 == 1 and os.fork():
            os._exit(0)
        for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        time.sleep(600)
print("RESULT", flush=True)
"""
"""Children that leave the session, the parent, and do not listen; all hold the stdout open."""


async def test_a_child_is_given_its_streams_and_nothing_of_the_driver(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    held = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(held, True)  # as a careless launcher leaves them
    try:
        work = bench.shell(
            'cat; echo "|$(pwd)|"; ls /proc/self/fd | wc -l; '
            'grep -E "SigIgn|SigBlk" /proc/self/status; env',
            run_id="r7",
            env={"MINE": "yes"},
        )
        await bench.run(work)
    finally:
        os.close(held)
    said = bench.stem(work).stream.read_text()
    assert said.startswith(f"the prompt\n|{tmp_path}|\n4\n")
    masks = dict(line.split(":\t") for line in said.splitlines() if line.startswith("Sig"))
    # glibc's posix_spawn ignores its two internal signals, 32 and 33: they are nobody's.
    assert (int(masks["SigBlk"], 16), int(masks["SigIgn"], 16) & ~(3 << 31)) == (0, 0)
    assert "MINE=yes\n" in said
    assert "ORCHESTRATOR_RUN=r7\n" in said
    assert f"ORCHESTRATOR_DISPATCH={work.id}\n" in said
    assert f"ORCHESTRATOR_STEM={bench.stem(work).tag}\n" in said
    assert "LC_CTYPE" not in said  # what the interpreter of the shim set for itself


async def test_shim_and_child_lead_sessions_of_their_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("cat /proc/self/stat; sleep 0.2")
    executor = bench.executor()
    sessions: list[tuple[int, int]] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, Started) and observation.child is not None:
            sessions.append((os.getsid(observation.shim.pid), observation.shim.pid))
            sessions.append((os.getsid(observation.child.pid), observation.child.pid))

    await executor.prepare(work)
    await executor.run(work, observe)
    assert len(sessions) == 2
    assert all(session == pid for session, pid in sessions)


async def test_the_records_say_who_it_was_and_how_it_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo 'out'; echo 'err' >&2; exit 7")
    ending = await bench.run(work)
    stem = bench.stem(work)
    record = json.loads(stem.exit.read_text())
    assert (record["schema"], record["code"], record["signal"]) == (1, 7, None)
    assert (record["reason"], record["survivors"]) == ("exited", 0)
    assert record["max_rss_kb"] > 100
    assert 0 < record["duration_s"] < 5
    shim = stem.read_shim()
    assert shim is not None
    assert (shim.boot_id, record["child"]["pid"]) == (processes.boot_id(), shim.child.pid)
    assert (ending.exit.code, ending.evidence["stderr"]) == (7, "err\n")
    assert stem.stream.read_text() == "out\n"
    assert not stem.is_locked()


async def test_a_signal_that_ends_the_child_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    ending = await bench.run(bench.shell("kill -SEGV $$"))
    assert (ending.exit.code, ending.exit.signal) == (None, signal.SIGSEGV)


def _is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _make(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        ("missing", "cannot start no-such-program: No such file or directory"),
        ("format", "Exec format error"),
        ("interpreter", "the interpreter that its first line names"),
        ("permission", "Permission denied"),
        ("directory", "is gone"),
        ("nul", "null byte"),
        ("too long", "Argument list too long"),
    ],
)
async def test_what_cannot_be_started_is_an_ending(tmp_path: Path, trouble: str, says: str) -> None:
    bench = Bench(tmp_path)
    program = {
        "missing": "no-such-program",
        "format": _make(tmp_path / "garbage", "\x01\x02\x03", 0o755),
        "interpreter": _make(tmp_path / "script", "#!/no/such/interpreter\n", 0o755),
        "permission": _make(tmp_path / "plain", "#!/bin/sh\n", 0o644),
    }.get(trouble, "true")
    argument = {"nul": "a\0b", "too long": "x" * 3_000_000}.get(trouble, "")
    cwd = str(tmp_path / "gone") if trouble == "directory" else str(tmp_path)
    ending = await bench.run(bench.work([program, argument], cwd=cwd))
    assert ending.status is ResultStatus.FAILURE
    assert ending.cause is Cause.INFRASTRUCTURE
    assert says in ending.error
    assert "\n" not in ending.error
    work = bench.work([program, argument], cwd=cwd, lane="headless:claude", dispatch=2)
    expected = Cause.WORKTREE_GONE if trouble == "directory" else Cause.MISCONFIGURED
    assert (await bench.run(work)).cause is expected


async def test_the_deadline_holds_without_a_driver(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("trap '' INT TERM; sleep 600 & sleep 600", timeout_s=0.2)
    executor = bench.executor()
    await executor.prepare(work)
    with trio.move_on_after(0.1):  # the driver goes away
        await executor.run(work, lambda _: None)
    stem = bench.stem(work)
    await until_there(lambda: not stem.is_locked())
    record = stem.read_exit()
    assert record is not None
    assert (record.reason, record.signal, record.survivors) == ("deadline", signal.SIGKILL, 0)
    assert bench.tagged(work) == []


async def test_stopping_climbs_the_ladder_only_as_far_as_needed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, QUICK)
    polite = """
import os, signal, sys, time
def heard(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    if number == int(sys.argv[1]):
        sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, heard)
os.write(1, b"ready\\n")
while True:
    time.sleep(1)
"""
    for dispatch, heeds, heard, end in [
        (1, signal.SIGINT, ["SIGINT"], (0, None)),
        (2, signal.SIGTERM, ["SIGINT", "SIGTERM"], (0, None)),
        (3, 0, ["SIGINT", "SIGTERM"], (None, signal.SIGKILL)),
    ]:
        work = bench.work([sys.executable, "-c", polite, str(int(heeds))], dispatch=dispatch)
        stem, executor = bench.stem(work), bench.executor()
        await executor.prepare(work)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.run, work, lambda _: None)
            await until_there(partial(_is_written, stem.stream))
            assert await executor.stop(bench.lease(work)) == 0
        record = stem.read_exit()
        assert record is not None
        assert stem.stream.read_text().split() == ["ready", *heard]
        assert (record.reason, record.code, record.signal) == ("stopped", *end)


async def test_stopping_ends_sixty_stubborn_descendants_within_the_two_waits(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    work = bench.python(
        BREED + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)",
        "60",
    )
    bench.settings = QUICK
    executor = bench.executor()
    await executor.prepare(work)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.run, work, lambda _: None)
        await until_there(lambda: len(bench.tagged(work)) >= 62)
        began = time.monotonic()
        assert await executor.stop(bench.lease(work)) == 0
        took_s = time.monotonic() - began
    assert bench.tagged(work) == []
    record = bench.stem(work).read_exit()
    assert record is not None
    assert (record.descendants_ended, record.survivors) == (60, 0)
    assert took_s < QUICK.interrupt_wait_s + QUICK.terminate_wait_s + 1.0


async def test_nothing_outlives_a_child_that_ended_by_itself(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.python(BREED, "60")
    ending = await bench.run(work)
    assert ending.status is ResultStatus.SUCCESS
    assert (ending.exit.code, ending.exit.reason) == (0, "exited")
    assert (ending.exit.descendants_ended, ending.exit.survivors) == (60, 0)
    assert bench.tagged(work) == []


async def test_what_a_child_left_behind_may_end_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell(
        "(trap 'echo tidy; exit' TERM; echo up >&2; while :; do sleep 0.01; done) & "
        "while ! [ -s up ]; do sleep 0.01; echo > up; done; sleep 0.1; echo RESULT"
    )
    ending = await bench.run(work)
    assert bench.stem(work).stream.read_text() == "RESULT\ntidy\n"
    assert ending.exit.survivors == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
async def test_signals_meant_for_others_leave_the_shim_alone(
    tmp_path: Path, number: signal.Signals
) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("until [ -e go ]; do sleep 0.01; done; echo RESULT")

    def observe(observation: Observation) -> None:
        if isinstance(observation, Started):
            assert waiting.signal_if_same(observation.shim, number)
            (tmp_path / "go").touch()

    executor = bench.executor()
    await executor.prepare(work)
    ending = await executor.run(work, observe)
    assert (ending.status, ending.exit.reason) == (ResultStatus.SUCCESS, "exited")


async def test_a_stem_is_never_started_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("echo RESULT")
    await bench.run(work)
    before = bench.stem(work).exit.read_text(), bench.stem(work).stream.read_text()
    again = await bench.run(work)
    assert (again.cause, "was started before" in again.error) == (Cause.CRASH, True)
    # The shim itself refuses too, whoever starts it.
    bench.stem(work).shim.unlink()
    stem = bench.stem(work)
    supervisor = bench.executor()._supervisor
    supervisor.lock(stem)
    pid = supervisor.spawn(
        stem,
        ("sh", "-c", "echo twice"),
        {"PATH": os.environ["PATH"]},
        cwd="/",
        stdin=stem.prompt,
        deadline_s=5.0,
    )
    assert await trio.to_thread.run_sync(os.waitpid, pid, 0) == (pid, ALREADY_STARTED << 8)
    assert (stem.exit.read_text(), stem.stream.read_text()) == before


@pytest.mark.parametrize("which", ["itself", "above"])
async def test_no_child_starts_through_a_link_to_its_worktree(tmp_path: Path, which: str) -> None:
    """Put there after the driver has looked."""
    bench = Bench(tmp_path)
    there = tmp_path / "above" / "worktree"
    there.mkdir(parents=True)
    ran = tmp_path / "ran"
    work = bench.shell(f"touch {ran}", cwd=str(there), lane="headless:claude")
    moved = there if which == "itself" else there.parent
    moved.rename(tmp_path / "moved")
    moved.symlink_to(tmp_path / "moved")
    executor = bench.executor("headless:claude")
    await executor.prepare(work)
    ending = await executor.run(work, lambda _: None)
    assert ending.cause is Cause.WORKTREE_GONE
    assert not ran.exists()


async def test_the_lock_is_the_shims_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    work = bench.shell("until [ -e go ]; do sleep 0.01; done")
    stem, executor = bench.stem(work), bench.executor()
    await executor.prepare(work)
    assert stem.is_locked()
    holders: list[int] = []

    def observe(observation: Observation) -> None:
        if isinstance(observation, Started):
            holders.extend(_holders(stem.lock, [os.getpid(), *bench.tagged(work)]))
            holders.append(-observation.shim.pid)
            assert stem.is_locked()
            (tmp_path / "go").touch()

    await executor.run(work, observe)
    assert holders[0] == -holders[1]
    assert len(holders) == 2
    assert not stem.is_locked()


def _holders(path: Path, pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # a short-lived helper of the child
            if any(fd.resolve() == path for fd in Path(f"/proc/{pid}/fd").iterdir()):
                found.append(pid)
    return found
