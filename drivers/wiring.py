"""The composition root: the one place where the driver's ports get their adapters."""

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.execution.claude.account import account_name
from adapters.execution.claude.by_hand import cost_by_hand
from adapters.execution.claude.environment import read_oauth_token, secret_values
from adapters.execution.claude.lane import ClaudeLane
from adapters.execution.claude.schema import misfit
from adapters.execution.executor import SupervisedExecutor
from adapters.execution.lanes import Lane
from adapters.execution.steps.lane import StepsLane
from adapters.host.account import AccountFile, make_directory
from adapters.host.watcher import FileWatcher
from adapters.workspace.git import GitWorkspace
from drivers.headless.outside import Outside
from drivers.settings import Environment
from drivers.tracebacks import keep_tracebacks
from drivers.wiring_host import host_of, slots_of_host
from orchestrator.core.errors import EnvironmentFault
from orchestrator.core.model import ENGINE_LANE, CallCost, SessionId, Stage, StageResult
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from orchestrator.core.settings import Project
from orchestrator.core.state import Lease, RunState
from orchestrator.journal.disk import open_journal
from orchestrator.journal.file import FileJournal
from orchestrator.journal.live import LiveRun
from orchestrator.journal.snapshot import open_run
from orchestrator.journal.store import RunStore

HEADLESS_LANE = "headless:claude"
INTERACTIVE_LANE = "interactive:claude"


@dataclass(frozen=True, slots=True)
class Connected:
    """A run that a driver may drive: its state and journal, and all that is outside."""

    run: LiveRun
    journal: FileJournal
    outside: Outside


@asynccontextmanager
async def connected(store: RunStore) -> AsyncIterator[Connected]:
    watcher = FileWatcher()
    with watcher.watch(store.events_path) as changed:
        journal = open_journal(store.events_path, store.run_id, changes=changed.wait)
        run = await open_run(journal, store)
        name = _account_name(run.state.project)
        with told_of(name, watcher) as account:
            yield Connected(run, journal, _outside(lambda: run.state, store, watcher, account))


@asynccontextmanager
async def attached(run: LiveRun, store: RunStore) -> AsyncIterator[Outside]:
    """For a command that steps a run which it has opened already."""
    account = account_of(run.state.project)
    yield _outside(lambda: run.state, store, FileWatcher(), account)


def require_programs(project: Project, environ: Mapping[str, str]) -> None:
    """Raises EnvironmentFault where a child could not even be started.  Better now than at 3 am."""
    for program, mend in (
        ("git", "install git"),
        (project.agent.command[0], "install it, or set [agent] command in the project file"),
    ):
        if shutil.which(program, path=environ.get("PATH")) is None:
            raise EnvironmentFault(f"{program} is not on PATH: {mend}; `doctor` says more")


def require_repository(project: Project) -> None:
    """Raises EnvironmentFault where no stage could work: on a disk that is not mounted, say."""
    if not os.path.lexists(os.path.join(project.root, ".git")):
        raise EnvironmentFault(
            f"there is no git repository at {project.root}, which this run works on: bring it back"
            " (a disk that is not mounted?), then run the same command again"
        )


def output_mistake(stage: Stage, output: Any) -> str:
    """What is wrong with a stage's structured output, in one line; "" where nothing is."""
    schema = OUTPUT_SCHEMAS.get(stage)
    return "" if schema is None else misfit(output, schema)


def cost_of_result(result: StageResult, lease: Lease, stem: Path) -> CallCost:
    """As ``record`` was told, or estimated.  ``stem``: of the dispatch's files."""
    try:
        prompt_chars = stem.with_name(stem.name + ".prompt.txt").stat().st_size
    except OSError:
        prompt_chars = 0
    said = result.raw_output or str(result.structured_output or "")
    return cost_by_hand(
        result.cost_usd,
        result.usage,
        model=lease.model,
        prompt_chars=prompt_chars,
        said_chars=len(said),
    )


def account_of(project: Project) -> AccountFile:
    """What drivers on this host know of the account that pays for the project's calls."""
    return AccountFile(_accounts_directory(), _account_name(project))


@contextmanager
def told_of(name: str, watcher: FileWatcher) -> Iterator[AccountFile]:
    """The same, for a driver: it is told when others tell something."""
    account = AccountFile(_accounts_directory(), name)
    try:
        make_directory(account.path.parent)
    except OSError:  # it goes alone, and says so when it has something to tell
        yield account
        return
    with watcher.watch(account.path) as changed:
        account.changes = changed.wait
        yield account


def _account_name(project: Project) -> str:
    token = read_oauth_token(project)
    return account_name(project.agent, os.environ, oauth_token=token)


def _accounts_directory() -> Path:
    return Environment.read().state_dir / "accounts"


def _outside(
    state: Callable[[], RunState], store: RunStore, watcher: FileWatcher, account: AccountFile
) -> Outside:
    keep_tracebacks(store.path)
    project = state().project
    slots = slots_of_host()
    host = host_of(project, store, slots)
    executor = SupervisedExecutor(
        stem_of=store.stem,
        slug_of=lambda task_id: state().tasks[task_id].slug,
        lanes=_lanes(state(), os.environ),
        settings=lambda: state().settings,
        host=host,
        watcher=watcher,
        slots=slots,
    )
    return Outside(
        executor=executor,
        workspace=GitWorkspace(project.root, state().run_id),
        host=host,
        account=account,
        run_dir=str(store.path),
        new_session=lambda: SessionId(str(uuid.uuid4())),
        redact=_redactor(secret_values({**os.environ, **project.agent.env})),
    )


def _redactor(secrets: Collection[str]) -> Callable[[str], str]:
    longest_first = sorted(secrets, key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in longest_first:
            text = text.replace(secret, "[secret]")
        return text

    return redact


def _lanes(state: RunState, environ: Mapping[str, str]) -> dict[str, Lane]:
    claude = ClaudeLane(state.project, environ)
    return {
        HEADLESS_LANE: claude,
        INTERACTIVE_LANE: claude,
        ENGINE_LANE: StepsLane(state.project, environ),
    }
