"""What one stage costs us, at 100, 1,000 and 10,000 tasks, beside make and a bare sync."""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.lane import CONCURRENT, drive, independent

SIZES = (100, 1_000, 10_000)
GOAL_WALL_MS, GOAL_CPU_MS, GOAL_RATIO = 2.5, 3.0, 1.2
SYNCS_MEASURED = 500


def report(directory: Path) -> Iterator[str]:
    sync_ms = _sync_ms(directory)
    yield f"limit: append + fdatasync {sync_ms:.2f} ms"
    yield from _make(directory)
    walls: dict[int, float] = {}
    for size in SIZES:
        measured = drive(directory / "runs", independent(size))
        walls[size] = 1e3 * measured.wall_s / measured.stages
        cpu_ms = 1e3 * measured.cpu_s / measured.stages
        yield (
            f"{size:>6} tasks x 6 stages: {walls[size]:.2f} ms wall (goal {GOAL_WALL_MS}), "
            f"{cpu_ms:.2f} ms CPU (goal {GOAL_CPU_MS}), "
            f"{measured.syncs / measured.stages:.2f} journal syncs, "
            f"{walls[size] / sync_ms:.1f} x one sync"
        )
    ratio = walls[SIZES[-1]] / walls[SIZES[0]]
    yield f"{SIZES[-1]} tasks / {SIZES[0]} tasks: {ratio:.2f} (goal {GOAL_RATIO})"


def _sync_ms(directory: Path) -> float:
    fd = os.open(directory / "sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = b"x" * 383 + b"\n"
    took = []
    for _ in range(SYNCS_MEASURED):
        begin = time.perf_counter()
        os.write(fd, line)
        os.fdatasync(fd)
        took.append(time.perf_counter() - begin)
    os.close(fd)
    return 1e3 * statistics.median(took)


def _make(directory: Path) -> Iterator[str]:
    """make with stamp files, no durability: 100 chains of six no-ops."""
    if shutil.which("make") is None:
        yield "peer: make is not installed"
        return
    tree = directory / "make"
    tree.mkdir()
    rules = ["all: " + " ".join(f"c{i}s5" for i in range(100))]
    for i in range(100):
        for k in range(6):
            need = f" c{i}s{k - 1}" if k else ""
            rules.append(f"c{i}s{k}:{need}\n\t@/bin/true && : > $@")
    (tree / "Makefile").write_text("\n".join(rules) + "\n")
    begin = time.perf_counter()
    subprocess.run(["make", "-s", f"-j{CONCURRENT}"], cwd=tree, check=True)
    wall_ms = 1e3 * (time.perf_counter() - begin) / 600
    yield f"peer: make -j{CONCURRENT}, 100 chains x 6, stamps, no sync: {wall_ms:.2f} ms a command"
    measured = drive(directory / "runs", independent(100), child=("/bin/true",))
    ours_ms = 1e3 * measured.wall_s / measured.stages
    yield (
        f"the same with /bin/true started directly, journalled and synced: {ours_ms:.2f} ms "
        f"({ours_ms / wall_ms:.1f} x make)"
    )
