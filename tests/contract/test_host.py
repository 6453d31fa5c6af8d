"""The host: identities, waiting for what is nobody's child, and being told of changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from adapters.host import processes, waiting
from adapters.host.local import LocalHost
from adapters.host.watcher import COALESCE_S, POLL_S, Changed, FileWatcher
from orchestrator.core.model import ProcessIdentity

BOUND_S = 5.0


def _identity(pid: int) -> ProcessIdentity:
    began = processes.start_time_of(pid)
    assert began is not None
    return ProcessIdentity(pid=pid, start_time=began)


@pytest.fixture
def sleeper() -> Iterator[ProcessIdentity]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        yield _identity(process.pid)
    finally:
        process.kill()
        process.wait()


def test_a_host_knows_itself() -> None:
    host = LocalHost()
    assert host.identity() == LocalHost().identity()
    assert "" not in (host.identity().machine_id, host.identity().boot_id)
    assert waiting.is_alive(host.this_process())


def test_a_process_that_ended_is_not_alive_even_before_it_is_collected() -> None:
    pid = os.posix_spawnp("true", ["true"], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert processes.start_time_of(pid) is None
    os.waitpid(pid, 0)
    assert processes.start_time_of(pid) is None


def test_a_name_with_parentheses_and_spaces_hides_nothing(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 1 ("
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "600"])
    try:
        assert processes.is_alive((process.pid, _identity(process.pid).start_time))
        family = processes.family([(os.getpid(), _identity(os.getpid()).start_time)])
        assert process.pid in [pid for pid, _ in family]
    finally:
        process.kill()
        process.wait()


def test_only_the_very_process_is_signalled(sleeper: ProcessIdentity) -> None:
    stranger = ProcessIdentity(pid=sleeper.pid, start_time=sleeper.start_time - 1)
    assert not waiting.signal_if_same(stranger, signal.SIGKILL)
    assert waiting.is_alive(sleeper)
    assert waiting.signal_if_same(sleeper, signal.SIGKILL)


def test_a_root_that_is_a_stranger_by_now_has_no_family() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    try:
        root = _identity(process.pid)
        while not (family := processes.family([(root.pid, root.start_time)])):
            pass
        assert len(family) == 1
        assert processes.family([(root.pid, root.start_time - 1)]) == []
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_tag_is_found_whole_or_not_at_all() -> None:
    process = subprocess.Popen(["sleep", "600"], env={"A": "1", "ORCHESTRATOR_STEM": "/runs/x"})
    try:
        # The kernel shows what a program is started with a moment after it has started it.
        while not (family := processes.family([], b"ORCHESTRATOR_STEM=/runs/x")):
            pass
        assert [pid for pid, _ in family] == [process.pid]
        assert processes.family([], b"ORCHESTRATOR_STEM=/runs/") == []
    finally:
        process.kill()
        process.wait()


async def test_the_exit_of_another_is_waited_for(sleeper: ProcessIdentity) -> None:
    with trio.fail_after(BOUND_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.wait_for_exit, sleeper)
            await trio.testing.wait_all_tasks_blocked()
            waiting.signal_if_same(sleeper, signal.SIGKILL)


async def test_nobody_waits_for_a_stranger(sleeper: ProcessIdentity) -> None:
    with trio.fail_after(BOUND_S):
        await waiting.wait_for_exit(
            ProcessIdentity(pid=sleeper.pid, start_time=sleeper.start_time - 1)
        )


async def test_a_family_is_ended_whole() -> None:
    tag = f"/runs/{os.getpid()}"
    process = await trio.lowlevel.open_process(
        ["sh", "-c", "trap '' TERM INT; setsid sleep 600 & sleep 600 & sleep 600"],
        env={"PATH": os.environ["PATH"], "ORCHESTRATOR_STEM": tag},
        start_new_session=True,
    )
    marker = f"ORCHESTRATOR_STEM={tag}".encode()
    with trio.fail_after(BOUND_S):
        while len(processes.family([], marker)) < 4:  # noqa: ASYNC110 - processes being born
            await trio.sleep(0.005)
        ended, survivors = await waiting.end_family(
            _identity(process.pid), tag, interrupt_wait_s=0.05, terminate_wait_s=0.05
        )
        await process.wait()
    assert (ended, survivors) == (4, 0)
    assert processes.family([], marker) == []


@pytest.mark.parametrize("use_inotify", [sys.platform == "linux", False])
async def test_a_watcher_tells_of_growth_replacement_and_birth(
    tmp_path: Path, use_inotify: bool
) -> None:
    watcher = FileWatcher(use_inotify=use_inotify)
    path, other = tmp_path / "stream", tmp_path / "other"

    def replace() -> None:
        other.write_text("whole")
        other.rename(path)

    def grow() -> None:
        with path.open("a") as file:
            file.write("more")

    settled_s = 2 * (COALESCE_S if use_inotify else POLL_S)
    with trio.fail_after(BOUND_S), watcher.watch(path) as changed:
        for change in (path.touch, grow, replace, grow):
            for may_be_told in (True, False):  # of the change before; then of nothing
                with trio.move_on_after(settled_s) as quiet:
                    await changed.wait()
                assert quiet.cancelled_caught or may_be_told
            change()
            await changed.wait()


async def test_a_watcher_wakes_for_its_own_file_only(tmp_path: Path) -> None:
    watcher = FileWatcher()
    with watcher.watch(tmp_path / "mine") as mine, watcher.watch(tmp_path / "yours") as yours:
        (tmp_path / "yours").touch()
        with trio.fail_after(BOUND_S):
            await yours.wait()
        with trio.move_on_after(0.05) as quiet:
            await mine.wait()
        assert quiet.cancelled_caught


async def test_a_busy_file_wakes_seldom(tmp_path: Path) -> None:
    watcher = FileWatcher()
    wakes = 0

    async def count(changed: Changed) -> None:
        nonlocal wakes
        while True:
            await changed.wait()
            wakes += 1

    with watcher.watch(tmp_path / "busy") as changed, (tmp_path / "busy").open("a") as file:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, changed)
            began = trio.current_time()
            while (took_s := trio.current_time() - began) < 0.4:
                file.write("line\n")
                file.flush()
                await trio.sleep(0.0005)
            nursery.cancel_scope.cancel()
    assert 1 < wakes <= took_s / COALESCE_S + 2


def test_a_watcher_opens_one_descriptor_and_closes_it_with_the_run(tmp_path: Path) -> None:
    watcher = FileWatcher()
    counts = []

    async def watch() -> None:
        for _ in range(3):
            with watcher.watch(tmp_path / "a", tmp_path / "b") as changed, watcher.watch(tmp_path):
                (tmp_path / "a").write_text("more")
                with trio.fail_after(BOUND_S):
                    await changed.wait()
            counts.append(len(os.listdir("/dev/fd")))

    before = len(os.listdir("/dev/fd"))
    for _ in range(2):  # a watcher that outlives its run begins anew
        trio.run(watch)
    assert len(os.listdir("/dev/fd")) == before
    assert len(set(counts)) == 1


async def test_where_inotify_has_run_out_files_are_looked_at(tmp_path: Path) -> None:
    watcher = FileWatcher()
    gone = tmp_path / "gone"  # inotify refuses it: there is no such directory
    with trio.fail_after(BOUND_S), watcher.watch(gone / "file") as changed:
        gone.mkdir()
        (gone / "file").touch()
        await changed.wait()
