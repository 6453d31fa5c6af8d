"""What a run learned, kept beside its journal for the runs after it: ``history.json``.

A projection of the state's history, and an abbreviation only: it is written whole or not at
all, and what cannot be read of another run is passed over.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orchestrator.core.history import History, Sample
from orchestrator.core.model import Record
from orchestrator.core.settings import Argv, Project
from orchestrator.core.state import RunState
from orchestrator.given_file import read_file
from orchestrator.journal.store import RunStore

VERSION = 1
RUNS_MAX = 20
"""The newest of the project's."""
LOOKED_AT_MAX = 500
"""Run directories, newest day first: a root may hold thousands."""
BYTES_MAX = 4_000_000

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class RunHistory(Record, frozen=True, kw_only=True):
    """The file.  ``agent`` tells a rehearsal from real work: what one learns is of no use to
    the other."""

    v: int
    run_id: str
    project: str
    root: str
    agent: Argv
    samples: tuple[Sample, ...] = ()


class _Version(msgspec.Struct):
    v: int


@dataclass(frozen=True, slots=True)
class Past:
    samples: tuple[Sample, ...] = ()
    """Oldest run first, each kind bounded."""
    runs: int = 0
    unread: tuple[str, ...] = ()
    """Files that were passed over, and why."""


def write_history(store: RunStore, state: RunState) -> None:
    """Raises OSError."""
    samples = tuple(state.history.own_samples())
    if not samples:
        return
    history = RunHistory(
        v=VERSION,
        run_id=state.run_id,
        project=state.project.name,
        root=state.project.root,
        agent=state.project.agent.command,
        samples=samples,
    )
    path = store.history_path
    beside = path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        beside.write_bytes(msgspec.json.encode(history))
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def read_past(store: RunStore, project: Project) -> Past:
    """Of the other runs of the project that are kept beside this one.  Raises nothing."""
    found: list[tuple[float, Path]] = []
    for path in _others(store):
        try:
            found.append((path.stat().st_mtime, path))
        except OSError:
            continue  # it has none, or went away
    unread: list[str] = []
    taken: list[RunHistory] = []
    for _, path in sorted(found, reverse=True):
        if len(taken) == RUNS_MAX:
            break
        try:
            history = _read(path)
        except (OSError, ValueError, RecursionError) as problem:
            unread.append(f"{path}: {problem}")
            continue
        if _is_of(history, project):
            taken.append(history)
    kept = History()
    kept.load(_named(sample, h.run_id) for h in reversed(taken) for sample in h.samples)
    return Past(tuple(kept.past_samples()), len(taken), tuple(unread))


def is_news(past: Past, history: History) -> bool:
    """Whether loading it would change what is known."""
    would_be = History()
    for sample in history.own_samples():
        would_be.add(sample)
    would_be.load(past.samples)
    return would_be.samples != history.samples


def _others(store: RunStore) -> Iterator[Path]:
    """Where the runs beside this one keep theirs: in a pinned root, or on all of the project's
    days."""
    parent = store.path.parent
    days = [parent]
    if _DAY.fullmatch(parent.name):
        days = sorted((d for d in _entries(parent.parent) if _DAY.fullmatch(d.name)), reverse=True)
    looked_at = 0
    for day in days:
        for run in _entries(day):
            if looked_at == LOOKED_AT_MAX:
                return
            looked_at += 1
            if run != store.path and not run.name.startswith("."):
                yield RunStore(run).history_path


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> RunHistory:
    """Raises OSError, and ValueError for what is not one."""
    if path.stat().st_size > BYTES_MAX:
        raise ValueError(f"larger than {BYTES_MAX} bytes")
    data = read_file(path)
    if msgspec.json.decode(data, type=_Version).v > VERSION:
        raise ValueError("of a newer version")
    return msgspec.json.decode(data, type=RunHistory)


def _is_of(history: RunHistory, project: Project) -> bool:
    return (history.project, history.root, history.agent) == (
        project.name,
        project.root,
        project.agent.command,
    )


def _named(sample: Sample, run_id: str) -> Sample:
    return msgspec.structs.replace(sample, task=f"{run_id}/{sample.task}")
