"""What memory a child took, and what it died of: real processes."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
import trio

from adapters.execution import appetite
from adapters.host import memory
from adapters.host.usage import Tree, Usage, usage_of
from orchestrator.core.model import Cause, Ending
from tests.e2e.supervision import BOUND_S, Bench, factory, until, until_there

MB = 1_000_000
EATS = (
    "import os, time\n"
    "b = bytearray(80_000_000)\n"
    "open('full', 'w').close()\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n"
    "print('RESULT')"
)
"""80 MB, until it is told to go."""
TWO_EAT = (
    "import subprocess, sys\n"
    "b = bytearray(70_000_000)\n"
    f"subprocess.run([sys.executable, '-I', '-S', '-c', {EATS!r}])"
)
"""It holds 70 MB, and what it starts 80."""


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What each look saw of all children together; they come often."""
    seen: list[int] = []

    def look(trees: Iterable[Tree]) -> list[Usage]:
        found = usage_of(trees)
        seen.append(sum(usage.resident_bytes for usage in found))
        return found

    monkeypatch.setattr(appetite, "LOOK_S", 0.05)
    monkeypatch.setattr(appetite, "usage_of", look)
    return seen


async def test_all_that_a_child_starts_is_counted_together(
    tmp_path: Path, looks: list[int]
) -> None:
    bench = Bench(tmp_path)
    work = bench.python(TWO_EAT)
    executor = bench.executor()
    assert await executor.prepare(work)
    endings: list[Ending] = []

    async def follow() -> None:
        endings.append(await executor.run(work, lambda _: None))

    await _until_seen(follow, looks, tmp_path)
    assert 150 * MB < endings[0].exit.peak_memory_bytes < 300 * MB


async def _until_seen(follow: Callable[[], Awaitable[None]], looks: list[int], at: Path) -> None:
    """To its end; it is told to go once a look has seen all that it holds."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await until_there(lambda: max(looks, default=0) > 150 * MB)
        (at / "go").touch()


async def test_of_a_child_that_nobody_looked_at_the_largest_process_is_known(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    work = bench.python(EATS)
    (tmp_path / "go").touch()
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until(bench.stem(work).shim.exists)
        drivers.kill(driver)
    await until_there(lambda: not bench.stem(work).is_locked())
    ending = await bench.attach(work)
    assert 80 * MB < ending.exit.peak_memory_bytes < 200 * MB


async def test_an_adopted_child_is_looked_at_too(tmp_path: Path, looks: list[int]) -> None:
    bench = Bench(tmp_path)
    work = bench.python(TWO_EAT)
    with factory(tmp_path) as drivers:
        driver = drivers.drive(work)
        until((tmp_path / "full").exists)
        drivers.kill(driver)
    endings: list[Ending] = []

    async def adopt() -> None:
        endings.append(await bench.attach(work))

    await _until_seen(adopt, looks, tmp_path)
    assert endings[0].exit.peak_memory_bytes > 150 * MB


# -- killed for want of memory ----------------------------------------------------------------


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the kernel says of how many it has killed."""
    counter = [5]
    monkeypatch.setattr(memory, "oom_kills", lambda: counter[0])
    monkeypatch.setattr(memory, "is_under_pressure", lambda: False)
    return counter


async def killed(bench: Bench, kills: list[int], *, oom: int, by_us: bool = False) -> Ending:
    work = bench.shell("echo start; exec sleep 600")
    executor = bench.executor()
    assert await executor.prepare(work)
    endings: list[Ending] = []

    async def follow() -> None:
        endings.append(await executor.run(work, lambda _: None))

    with trio.fail_after(BOUND_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await until_there(bench.stem(work).shim.exists)
            record = bench.stem(work).read_shim()
            assert record is not None
            kills[0] += oom
            if by_us:
                assert await executor.stop(bench.lease(work)) == 0
            else:
                os.kill(record.child.pid, signal.SIGKILL)
    return endings[0]


async def test_killed_while_the_kernel_kills_for_memory_is_no_crash(
    tmp_path: Path, kills: list[int]
) -> None:
    ending = await killed(Bench(tmp_path), kills, oom=1)
    assert ending.cause is Cause.OUT_OF_MEMORY
    assert ending.error.startswith("killed for want of memory")
    assert ending.exit.signal == signal.SIGKILL


async def test_killed_while_processes_stand_still_for_memory_is_no_crash(
    tmp_path: Path, kills: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard of the machine's does not count as the kernel's own."""
    monkeypatch.setattr(memory, "is_under_pressure", lambda: True)
    assert (await killed(Bench(tmp_path), kills, oom=0)).cause is Cause.OUT_OF_MEMORY


async def test_killed_by_anybody_else_is_a_crash(tmp_path: Path, kills: list[int]) -> None:
    assert (await killed(Bench(tmp_path), kills, oom=0)).cause is Cause.CRASH


async def test_what_we_stop_was_not_killed_for_memory(tmp_path: Path, kills: list[int]) -> None:
    ending = await killed(Bench(tmp_path), kills, oom=1, by_us=True)
    assert ending.cause is not Cause.OUT_OF_MEMORY
