"""What a verb is handed: where things are, how to print, and the run it works on.

stdout is the result, stderr the narration.  A verb that has a run always says where its
store is.  Nothing here decides anything about a run.
"""

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drivers.cli.failure import Log
from drivers.settings import Environment
from orchestrator.core.errors import Refused, Usage
from orchestrator.core.words import is_text

if TYPE_CHECKING:
    from orchestrator.core.events import Entry, KnownEvent
    from orchestrator.core.settings import Project
    from orchestrator.core.state import RunState
    from orchestrator.journal.live import LiveRun
    from orchestrator.journal.store import RunRoot, RunStore

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    environment: Environment
    run_id: str | None
    project: str | None
    """What ``--project`` says; None: the current repository."""
    root: Path | None
    wants_json: bool
    log: Log
    opened: "RunStore | None" = None

    @classmethod
    def of(
        cls,
        args: argparse.Namespace,
        environment: Environment,
        *,
        json_by_default: bool,
        log: Log,
    ) -> "Context":
        return cls(
            environment=environment,
            run_id=args.run,
            project=args.project,
            root=Path(args.root).absolute() if args.root else None,
            wants_json=args.json or (json_by_default and not args.text),
            log=log,
        )

    # Output

    def result(self, value: Any, text: str) -> None:
        """Print the command's result: ``value`` as JSON, or ``text`` for a person."""
        print(as_json(value, indent=2) if self.wants_json else text)

    def line(self, value: Any, text: str) -> None:
        """One of many results, at once: a JSON line, or text."""
        print(as_json(value) if self.wants_json else text, flush=True)

    def note(self, text: str) -> None:
        with suppress(OSError):  # a full disk, or nobody there: no reason not to do the work
            print(f"note: {text}", file=sys.stderr, flush=True)

    def now(self) -> float:
        return time.time()

    # The run

    def run_root(self) -> "RunRoot":
        from orchestrator.journal.store import RunRoot

        root = self.environment.runs_root if self.root is None else self.root
        if not is_text(str(root)):
            raise Usage(f"{root}: the path of the runs' root is not UTF-8: name another directory")
        return RunRoot(root, pinned=self.root is not None)

    def store(self) -> "RunStore":
        """The store of the run that ``--run`` names; Refused where there is none."""
        if self.opened is not None:
            return self.opened
        if not self.run_id:
            raise Usage("which run? say --run RUN")
        store = self.at(self.run_root().find(self.run_id))
        if self.project is not None:
            self._require_project(store)
        return store

    def at(self, store: "RunStore") -> "RunStore":
        """Say where the run's store is; what goes wrong from now on is written there."""
        self.opened = store
        self.log.directory = store.path
        self.note(f"run {store.run_id}: run store at {store.path}")
        return store

    def read(self) -> "tuple[RunStore, RunState]":
        """The run as its journal has it now.  Writes nothing, and waits for nobody."""
        from orchestrator.journal.snapshot import read_state

        store = self.store()
        return store, read_state(store)

    def with_run(self, act: "Callable[[LiveRun, RunStore], Awaitable[T]]") -> T:
        """Open the run, do something with it, and return what that returns."""
        import trio

        from orchestrator.journal.disk import open_journal
        from orchestrator.journal.snapshot import open_run

        store = self.store()

        async def opened() -> T:
            run = await open_run(open_journal(store.events_path, store.run_id), store)
            return await act(run, store)

        return trio.run(opened)

    def commit(
        self, decide: "Callable[[RunState], Sequence[KnownEvent]]"
    ) -> "tuple[RunState, tuple[Entry, ...]]":
        """Decide on the run's present state, make it durable; the state after it."""

        async def act(run: "LiveRun", _: "RunStore") -> "tuple[RunState, tuple[Entry, ...]]":
            entries = await run.commit(decide, now=self.now())
            return run.state, entries

        return self.with_run(act)

    def project_of(self, store: "RunStore") -> "Project":
        """The snapshot that the run was made with: its journal's first line."""
        from orchestrator.core.errors import JournalDamaged
        from orchestrator.core.events import RunCreated
        from orchestrator.journal.read import read_entries

        first = next(iter(read_entries(store.events_path)), None)
        if first is None or not isinstance(first.event, RunCreated):
            raise JournalDamaged(f"{store.events_path} does not begin with run_created")
        return first.event.project

    def _require_project(self, store: "RunStore") -> None:
        """A run keeps its project: ``--project`` may be repeated, and may not differ."""
        from drivers.wiring_cli import load_project

        given, own = load_project(self.project, Path.cwd()), self.project_of(store)
        if given.root != own.root:
            raise Refused(
                f"run {store.run_id} is on {own.root}, not on {given.root}:"
                " leave --project out, or name the run's own"
            )

    def command(self, *words: str) -> str:
        """A command on this run, as one line that can be pasted into a shell."""
        import shlex

        run = ["--run", self.run_id] if self.run_id else []
        return shlex.join([*self.program(), *run, *words])

    def program(self) -> list[str]:
        """How to start this program from a shell, with the options that every command needs."""
        import shutil

        on_path = shutil.which("orchestrator") is not None
        name = ["orchestrator"] if on_path else [sys.executable, "-m", "orchestrator"]
        return [*name, "--root", str(self.root)] if self.root is not None else name


def as_json(value: Any, *, indent: int = 0) -> str:
    """Any value of this project: records, states, views, enums, paths."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=str)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()
