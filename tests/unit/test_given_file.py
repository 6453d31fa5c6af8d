"""What stands where a person named a file: read whole, or refused at once and by name."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.execution.claude.environment import read_oauth_token
from adapters.execution.claude.session import is_resumable
from adapters.execution.rehearsal.scenario import ScenarioError, load
from adapters.execution.stems import Stem
from adapters.execution.tail import Tail
from adapters.host import account_file
from adapters.project.document import read_document
from adapters.project.file import read_project_file
from adapters.project.seen import text_of
from drivers.cli.main import main
from drivers.cli.onlooker import GrowingFile
from drivers.headless.detach import launch
from drivers.headless.narration import open_narration
from orchestrator.core.errors import EnvironmentFault, ExitStatus, Usage
from orchestrator.core.settings import AgentSettings, Project
from orchestrator.core.standing import Standing
from orchestrator.given_file import DATA_BYTES_MAX, WRITTEN_BYTES_MAX, read_given
from orchestrator.journal.snapshot import read_state, whole_snapshot
from orchestrator.journal.store import RunStore
from orchestrator.views.driver_log import read_driver
from tests.unit.cli.runs import HOST


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * DATA_BYTES_MAX)


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[Callable[[Path], None], str] = {
    pipe: "is a pipe",
    directory: "is a directory",
    device: "is a device",
    huge: "larger than",
    listening: "is a socket",
}
PROJECT = """
schema = 1
name = "p"
[stages.implement]
prompt = "odd.md"
"""


def as_token(path: Path) -> None:
    agent = AgentSettings(oauth_token_file=path.name)
    read_oauth_token(Project(name="p", root=str(path.parent), agent=agent))


def as_template(path: Path) -> None:
    path.rename(path.with_name("odd.md"))
    file = path.with_name("project.toml")
    file.write_text(PROJECT)
    read_project_file(file, path.parent)


def as_tasks(path: Path) -> None:
    read_document(path, "tasks.toml")


def as_project_file(path: Path) -> None:
    read_project_file(path, path.parent)


def as_scenario(path: Path) -> None:
    load(str(path))


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (read_given, OSError),
        (as_token, EnvironmentFault),
        (as_template, Usage),
        (as_tasks, Usage),
        (as_project_file, Usage),
        (as_scenario, ScenarioError),
    ],
    ids=lambda read: read.__name__,
)
def test_what_is_no_file_is_refused_at_once(
    make: Callable[[Path], None],
    read: Callable[[Path], object],
    fault: type[Exception],
    tmp_path: Path,
) -> None:
    path = tmp_path / "odd.toml"
    make(path)
    with pytest.raises(fault, match=ODD[make]):
        read(path)


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_result_that_is_no_file(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd"
    make(path)
    assert main(["--root", str(tmp_path), "--run", "r", "record", "--result", str(path)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert ODD[make] in said


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_look_at_a_repository_passes_over_it(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / "package.json")
    assert text_of(tmp_path / "package.json") == ""


def put(make: Callable[[Path], None], path: Path) -> None:
    made = path.with_name("odd")
    make(made)
    made.rename(path)


NO_FILES = [make for make in ODD if make is not huge]


@pytest.mark.parametrize("make", NO_FILES, ids=lambda make: make.__name__)
async def test_what_an_agent_puts_in_the_place_of_a_file_of_ours_is_nothing(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    """Opening a pipe waits for somebody to write: the driver would stand still for ever."""
    stem = Stem.first(tmp_path / "implement-attempt1")
    for path in (stem.lock, stem.exit, stem.shim, stem.stream, stem.stderr, stem.work, stem.prompt):
        put(make, path)
    assert (stem.is_locked(), stem.read_exit(), stem.read_shim()) == (False, None, None)
    assert stem.stderr_tail() == ""
    fed: list[bytes] = []
    with Tail(stem.stream) as tail:
        await tail.feed(fed.append)
    assert fed == []
    assert list(GrowingFile(stem.stream).new_lines()) == []
    store = RunStore(tmp_path)
    put(make, store.snapshot_path)
    assert whole_snapshot(store) is None
    put(make, account_file.path_of(tmp_path, "claude"))
    assert account_file.read(account_file.path_of(tmp_path, "claude")) == Standing()
    sessions = tmp_path / "projects" / "-srv"
    sessions.mkdir(parents=True)
    put(make, sessions / "one.jsonl")
    assert not is_resumable({"CLAUDE_CONFIG_DIR": str(tmp_path)}, "one")


def test_a_file_is_read_whole_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * WRITTEN_BYTES_MAX)
    assert len(read_given(path)) == WRITTEN_BYTES_MAX
    path.write_bytes(b"x" * (WRITTEN_BYTES_MAX + 1))
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_given(path)


def test_no_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    status = main(["--root", str(tmp_path), "--run", "r", "record", "--result", "-"])
    assert status == ExitStatus.USAGE
    (said,) = capsys.readouterr().err.splitlines()
    assert "no standard input" in said


@pytest.mark.parametrize("make", [pipe, listening])
def test_what_stands_in_the_place_of_a_runs_files_holds_nobody_up(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    for path in (store.events_path, store.driver_path, store.log_path):
        make(path)
    with pytest.raises(EnvironmentFault, match="cannot be read"):
        read_state(store)
    assert (
        read_driver(store.driver_path, now=0.0, here=HOST, is_alive=lambda *_: True).state == "none"
    )
    with pytest.raises(EnvironmentFault, match="cannot write"):
        open_narration(store.log_path, secrets=())
    with pytest.raises(EnvironmentFault, match="cannot start a driver"):
        launch(store, ["status"])
