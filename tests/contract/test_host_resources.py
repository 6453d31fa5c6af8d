"""What a host says that it has left: the port's promises, and this machine's own figures."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from adapters.host import memory, processes
from adapters.host.local import LocalHost
from adapters.host.slots import Slots
from adapters.host.usage import Usage, usage_of
from orchestrator.core.model import ProcessIdentity
from orchestrator.core.resources import Resources
from orchestrator.ports.host import Host
from tests.simulation.world import SimHost, World, failure

MB = 1_000_000


def local_host(path: Path) -> Host:
    return LocalHost(places=(path, path / "not" / "made"), slots=Slots(path / "slots"))


def simulated_host(path: Path) -> Host:
    world = World(rng=Random(1), script=lambda *_: failure("never"))  # type: ignore[arg-type]
    world.resources = Resources(
        memory_available_bytes=1, disk_free_bytes=1, load_per_core=0.0, children_bytes=()
    )
    world.places = 5
    return SimHost(world)


@pytest.fixture(params=[local_host, simulated_host])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    make: Callable[[Path], Host] = request.param
    return make(tmp_path)


async def test_a_host_says_what_it_has_left(host: Host) -> None:
    seen = host.resources(children=[], children_max=5)
    assert (seen.memory_available_bytes or 0) > 0
    assert (seen.disk_free_bytes or 0) > 0
    assert seen.load_per_core is not None
    assert (seen.host_children_free, seen.children_bytes, seen.problem) == (5, (), "")


async def test_children_are_not_counted_where_nobody_asks_for_it(host: Host) -> None:
    assert host.resources(children=[], children_max=0).host_children_free is None


# -- this machine -------------------------------------------------------------------------------


@pytest.fixture
def eater() -> Iterator[subprocess.Popen[bytes]]:
    """A shell whose child holds 60 MB."""
    source = "b = bytearray(60_000_000); print('full', flush=True); import time; time.sleep(600)"
    process = subprocess.Popen(
        ["sh", "-c", '"$0" -I -S -c "$1"; true', sys.executable, source],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"full\n"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def identity(pid: int) -> ProcessIdentity:
    began = processes.start_time_of(pid)
    assert began is not None
    return ProcessIdentity(pid=pid, start_time=began)


def test_a_tree_is_measured_whole_and_by_itself(eater: subprocess.Popen[bytes]) -> None:
    me, it = identity(os.getpid()), identity(eater.pid)
    whole, mine, both, nobodys = usage_of([[it], [me], [it, it], []])
    assert 60 * MB < whole.resident_bytes < 120 * MB
    assert mine.resident_bytes > whole.resident_bytes  # it is a descendant of ours
    assert both == whole
    assert nobodys == Usage()


def test_a_stranger_with_the_pid_is_not_measured(eater: subprocess.Popen[bytes]) -> None:
    it = identity(eater.pid)
    stranger = ProcessIdentity(pid=it.pid, start_time=it.start_time - 1)
    assert usage_of([[stranger]]) == [Usage()]


def test_each_child_is_measured(tmp_path: Path, eater: subprocess.Popen[bytes]) -> None:
    gone = ProcessIdentity(pid=eater.pid, start_time=1)
    seen = local_host(tmp_path).resources(
        children=[(gone,), (identity(eater.pid),)], children_max=1
    )
    none, some = seen.children_bytes
    assert (none, some > 60 * MB) == (0, True)


def test_a_machine_that_has_no_descriptors_left_is_not_known_and_no_fault(tmp_path: Path) -> None:
    """In a process of its own: the limit would be this one's."""
    source = f"""
import resource
from pathlib import Path
from adapters.host.local import LocalHost
from adapters.host.slots import Slots
import adapters.host.memory
path = Path({str(tmp_path)!r})
host = LocalHost(places=(path,), slots=Slots(path / "slots"))
(path / "slots").mkdir()
for number in range(3): (path / "slots" / f"{{number:02}}.lock").touch()
me = host.this_process()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 4096))
seen = host.resources(children=[(me,)], children_max=3)
print(seen.memory_available_bytes, seen.host_children_free, seen.children_bytes, seen.problem)
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["None", "None", "()"]


# -- memory below a control group's limit ----------------------------------------------------------

CONTAINER = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "35 31 0:32 {root} {top} rw,relatime - {kind} cgroup rw{options}\n"
)


@pytest.mark.parametrize(
    ("own", "kind", "options", "root", "group", "above"),
    [
        ("0::/user/a", "cgroup2", "", "/", "user/a", 2),
        ("4:memory:/p/q\n0::/", "cgroup", ",memory", "/", "p/q", 2),
        ("0::/docker/x/job", "cgroup2", "", "/docker/x", "job", 1),
        ("0::/elsewhere", "cgroup2", "", "/docker/x", "", 0),
        ("3:cpuset:/a", "cgroup", ",cpuset", "/", None, 0),
    ],
)
def test_our_groups_are_found(
    tmp_path: Path, own: str, kind: str, options: str, root: str, group: str | None, above: int
) -> None:
    mounts = CONTAINER.format(root=root, top=tmp_path, kind=kind, options=options)
    found = memory.memory_groups(own, mounts)
    if group is None:
        assert found == ()
    else:
        assert found[0] == tmp_path / group
        assert len(found) == above + 1
        assert found[-1] == tmp_path


def test_the_tightest_group_above_us_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("1000\n")
    (tmp_path / "outer" / "memory.max").write_text("500000\n")
    (tmp_path / "outer" / "memory.current").write_text("450000\n")
    (tmp_path / "outer" / "memory.stat").write_text("anon 1\ninactive_file 150000\n")
    monkeypatch.setattr(memory, "_groups", lambda: (inner, tmp_path / "outer", tmp_path))
    assert memory.available_bytes() == 200_000
    # As the first version writes it, and no limit as it writes that.
    (tmp_path / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (tmp_path / "memory.usage_in_bytes").write_text("7\n")
    (inner / "memory.current").unlink()
    (inner / "memory.limit_in_bytes").write_text("90000\n")
    (inner / "memory.usage_in_bytes").write_text("95000\n")
    assert memory.available_bytes() == 0


# -- places for children -----------------------------------------------------------------------


HOLD = """
import os, sys
from pathlib import Path
from adapters.host.slots import Slots
slot = Slots(Path(sys.argv[1])).take(int(sys.argv[2]))
print("held" if slot else "full", flush=True)
sys.stdin.read()
"""


def holder(path: Path, places: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(places)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=60)


def test_a_place_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots")
    assert slots.free(2) == 2
    first, second = holder(tmp_path / "slots", 2), holder(tmp_path / "slots", 2)
    try:
        assert (slots.free(2), slots.take(2)) == (0, None)
        end(first)
        assert slots.free(2) == 1
        mine = slots.take(2)
        assert mine is not None
        assert slots.free(2) == 0
        mine.release()
        assert slots.free(2) == 1
    finally:
        end(first)
        end(second)
    assert slots.free(2) == 2


def test_a_place_of_ours_that_is_not_used_yet_counts_as_free(tmp_path: Path) -> None:
    slots, other = Slots(tmp_path), Slots(tmp_path)
    mine = slots.take(2)
    assert mine is not None
    mine.is_waiting = True
    assert (slots.free(2), other.free(2)) == (2, 1)
    mine.is_waiting = False
    assert (slots.free(2), other.free(2)) == (1, 1)


def test_each_looks_at_as_many_places_as_it_was_told(tmp_path: Path) -> None:
    many, few = Slots(tmp_path), Slots(tmp_path)
    held = [many.take(3) for _ in range(3)]
    assert few.take(2) is None
    assert (few.free(2), many.free(4), many.free(0)) == (0, 1, None)
    first = held[0]
    assert first is not None
    first.release()
    assert (few.free(2), many.free(4)) == (1, 2)


def test_where_a_file_is_in_the_way_children_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "slots").write_text("")
    _is_not_counted(Slots(tmp_path / "slots"))


def _is_not_counted(slots: Slots) -> None:
    slot = slots.take(1)
    assert slot is not None
    assert slot.descriptor is None
    assert "slots" in slots.problem
    assert slots.free(1) is None
    assert slots.take(1) is not None


def test_a_look_at_the_places_never_takes_one_from_anybody(tmp_path: Path) -> None:
    """Looks lock for an instant: whoever takes meanwhile tries again."""
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from adapters.host.slots import Slots\n"
            "slots = Slots(Path(sys.argv[1]))\n"
            "print('looks', flush=True)\n"
            "while True: slots.free(1)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert looker.stdout is not None
        assert looker.stdout.readline() == "looks\n"
        slots = Slots(tmp_path)
        refused = 0
        for _ in range(300):
            slot = slots.take(1)
            refused += slot is None
            if slot is not None:
                slot.release()
        assert refused < 30  # a refusal is no harm: it is asked for again
    finally:
        end(looker)
