"""Where runs are kept: the runs root, a run's directory, and the files in it.

Invariant: a run's directory appears whole, with its first events in its journal, or
not at all; an id names one run in the root; nothing here is ever deleted.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import EnvironmentFault, Refused, Usage, with_remedy
from orchestrator.core.events import KnownEvent
from orchestrator.core.model import Stage
from orchestrator.journal.codec import encode_commit

RUN_ID_LENGTH_MAX = 64

_CREATE_WAIT_S = 10.0

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_EVENTS = "events.jsonl"


@dataclass(frozen=True)
class RunStore:
    """The files of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def events_path(self) -> Path:
        return self.path / _EVENTS

    @property
    def driver_path(self) -> Path:
        return self.path / "driver.jsonl"

    @property
    def lock_path(self) -> Path:
        """Held by the driver of the run for as long as it lives."""
        return self.path / "driver.lock"

    @property
    def costs_path(self) -> Path:
        return self.path / "stage-costs.jsonl"

    @property
    def log_path(self) -> Path:
        return self.path / "driver.log"

    @property
    def snapshot_path(self) -> Path:
        return self.path / "snapshot.msgpack"

    @property
    def history_path(self) -> Path:
        """What its stages took and cost, for the project's later runs."""
        return self.path / "history.json"

    @property
    def stages_dir(self) -> Path:
        return self.path / "stages"

    def stem(self, slug: str, stage: Stage, attempt: int, dispatch: int) -> Path:
        """What the names of a dispatch's files begin with; add ``.prompt.txt`` and so on."""
        again = "" if dispatch == 1 else f".d{dispatch}"
        return self.stages_dir / slug / f"{stage}-attempt{attempt}{again}"

    def record_path(self, slug: str, number: int, stage: Stage) -> Path:
        """``NN-<stage>.json`` of the task's ``number``-th recorded dispatch, from 1."""
        return self.stages_dir / slug / f"{number:02d}-{stage}.json"


@dataclass(frozen=True)
class RunRoot:
    """``root/<project>/<day>/<run>``; where a person pinned the root: ``root/<run>``."""

    root: Path
    pinned: bool = False

    def create(
        self,
        project_name: str,
        run_id: str,
        day: str,
        *,
        first: Sequence[KnownEvent],
        now: float,
    ) -> RunStore:
        """Make a run whose journal begins with the commit ``first``.

        ``day`` is ``YYYY-MM-DD``.  Raises Refused where the id is taken, Usage where it cannot
        be a directory's and a branch's name; then nothing has changed.
        """
        for what, name in (("a run id", run_id), ("a project name", project_name)):
            if not is_safe_name(name):
                raise Usage(
                    f"{name!r} cannot be {what}: use at most {RUN_ID_LENGTH_MAX} letters, digits,"
                    " '-', '_' and '.', beginning with a letter or digit"
                )
        journal, _ = encode_commit(first, after_seq=0, run_id=run_id, now=now)
        parent = self.root if self.pinned else self.root / project_name / day
        try:
            parent.mkdir(parents=True, exist_ok=True)
            with _only_one_creates(self.root):
                if (taken := self._look_up(run_id)) is not None:
                    raise Refused(
                        f"run {run_id} is there already, at {taken.path}: choose another id, or"
                        " go on with it"
                    )
                return RunStore(_make_whole(parent / run_id, journal))
        except OSError as error:
            check = (
                "check the space on the disk and who may write there, or set"
                " ORCHESTRATOR_RUNS_ROOT to another directory"
            )
            what = f"{parent / run_id}: cannot be made"
            raise EnvironmentFault(with_remedy(error, what, check)) from error

    def find(self, run_id: str) -> RunStore:
        """Raises Refused, naming the nearest ids, where there is no such run."""
        found = self._look_up(run_id) if is_safe_name(run_id) else None
        if found is not None:
            return found
        import difflib  # only a mistake needs it

        ids = [store.run_id for store in self.runs()]
        near = difflib.get_close_matches(run_id, ids, n=3, cutoff=0.5) or sorted(ids)[:3]
        hint = f"there are {', '.join(near)}" if near else "there are none; init-run makes one"
        raise Refused(f"there is no run {run_id!r} under {self.root}: {hint}")

    def runs(self) -> Iterator[RunStore]:
        for day in self._parents():
            for path in _directories(day):
                if (path / _EVENTS).exists():
                    yield RunStore(path)

    def _look_up(self, run_id: str) -> RunStore | None:
        for day in self._parents():
            if (day / run_id / _EVENTS).exists():
                return RunStore(day / run_id)
        return None

    def _parents(self) -> Iterator[Path]:
        """The directories that hold run directories."""
        if self.pinned:
            yield self.root
            return
        for project in _directories(self.root):
            yield from _directories(project)


def is_safe_name(name: str) -> bool:
    """Fit for a directory on any disk and for a part of a git branch name."""
    return (
        len(name) <= RUN_ID_LENGTH_MAX
        and _SAFE.fullmatch(name) is not None
        and ".." not in name
        and not name.endswith(".lock")
    )


def _directories(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            names = sorted(e.name for e in entries if e.name[0] != "." and e.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        check = "check who may read it, or set ORCHESTRATOR_RUNS_ROOT to another directory"
        raise EnvironmentFault(with_remedy(error, f"{path}: cannot be read", check)) from error
    return [path / name for name in names]


@contextmanager
def _only_one_creates(root: Path) -> Iterator[None]:
    """Ids are unique in the whole root, so that one making a run looks at no half-made other."""
    descriptor = os.open(root / ".create.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        give_up_at = time.monotonic() + _CREATE_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _make_whole(path: Path, journal: bytes) -> Path:
    """Fill a directory beside, sync it, and give it its name."""
    beside = path.with_name(f".{path.name}.new-{os.getpid()}")
    beside.mkdir()
    try:
        (beside / "stages").mkdir()
        with open(beside / _EVENTS, "wb") as file:
            file.write(journal)
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(beside)
        beside.rename(path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    _sync_directory(path.parent)
    return path


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
