"""What the documents say is what the code does: commands, statuses, settings, files, links."""

import argparse
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from pydantic import BaseModel

from adapters.execution.rehearsal import scenario
from adapters.execution.stems import Stem
from adapters.project.file import read_project_file
from adapters.project.local_tasks import LocalTasks
from adapters.project.schema import ProjectFile
from drivers.cli import arguments, failure, parser
from drivers.cli.init_run import shown
from drivers.cli.verbs import NOT_BUILT, VERBS, Verb
from drivers.headless.heartbeat import DriverState
from orchestrator.core.errors import ExitStatus
from orchestrator.core.model import Stage
from orchestrator.core.options import described
from orchestrator.core.settings import TIMEOUT_S_DEFAULT, Project, Settings
from orchestrator.journal.store import RunStore

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RUNNING = ROOT / "docs" / "running.md"
PROJECT_FILE = ROOT / "docs" / "project-file.md"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=lambda path: path.parts
)
README_LINES_MAX = 300

PATH_IN_PROSE = re.compile(
    r"`((?:docs|scripts|tests|adapters|drivers|orchestrator|\.ci|\.github)/[\w./*-]+)`"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def section(document: Path, heading: str) -> str:
    """The text below a heading, up to the next of its depth."""
    text = document.read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", text, re.M | re.S)
    assert found is not None, f"{document.name} has no section {heading!r}"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows; its head and the rule below are left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
    ]
    return [
        row
        for at, row in enumerate(cells)
        if not set(row[0]) <= {"-"} and not (at + 1 < len(cells) and cells[at + 1][0] == "---")
    ]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.M | re.S)


def shell_lines() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for block in blocks(document, "sh"):
            for line in block.splitlines():
                yield document, line


def commands() -> list[str]:
    """Every whole command of ours in the documents: in blocks, and in prose."""
    found = [line for _, line in shell_lines() if line.startswith("orchestrator ")]
    for document in DOCUMENTS:
        prose = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.M | re.S)
        found += re.findall(r"`(orchestrator (?:--run|\w[\w-]* ?)[^`…]*)`", prose)
    return sorted({line for line in found if "KEY VALUE" not in line})


def options_of(verb: Verb) -> set[str]:
    """A command's own options, without those that every command has."""
    own = argparse.ArgumentParser(add_help=False)
    verb.load().add_arguments(own)
    return {
        option
        for action in own._actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    }


def command_rows() -> Mapping[str, str]:
    """Command -> its synopsis, as README's reference has it."""
    synopses = [row[0].strip("`") for row in rows(section(README, "Commands"))]
    return {synopsis.split()[0]: synopsis for synopsis in synopses}


# -- commands -----------------------------------------------------------------------------------


def test_every_command_is_in_the_reference() -> None:
    assert list(command_rows()) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_a_command_is_shown_with_all_of_its_options(verb: Verb) -> None:
    synopsis = command_rows()[verb.name]
    assert set(re.findall(r"--[\w-]+", synopsis)) == options_of(verb)


def test_what_is_not_built_is_said() -> None:
    said = re.findall(r"`([\w-]+)`", section(README, "Limits of this version").split(";")[0])
    assert set(said) == NOT_BUILT


@pytest.mark.parametrize("line", commands())
def test_a_command_in_the_documents_is_one_that_can_be_given(line: str) -> None:
    words = line.split("<")[0].split(">")[0].split("2>&1")[0]
    verb, rest = arguments.split(shlex.split(words)[1:])
    if verb is None:
        assert rest in (["--help"], ["--version"])
    elif rest != ["--help"]:
        parser.parse(verb, verb.load(), rest)


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize(("document", "line"), list(shell_lines()))
def test_a_line_for_the_shell_can_be_pasted(document: Path, line: str) -> None:
    """zsh takes no comments where a person types; a line that goes on needs its next."""
    assert " # " not in line
    assert not line.startswith(("#", "$ "))
    assert not line.endswith(("\\", ","))
    shlex.split(line)


# -- statuses, settings, files ------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_path_in_a_variable_is_quoted(document: Path) -> None:
    assert re.findall(r'(?<!")\$DIR.*', document.read_text()) == []


def test_exit_statuses_are_those_of_the_program() -> None:
    said = {int(row[0]) for row in rows(section(README, "Exit statuses"))}
    assert said == {int(status) for status in ExitStatus}


def test_every_setting_is_listed_with_its_default() -> None:
    said = [(row[0].strip("`"), row[1]) for row in rows(section(RUNNING, "Settings"))]
    assert said == [(key, shown(value)) for key, value in described(Settings()).items()]


def test_the_states_of_a_heartbeat_are_all_explained() -> None:
    cells = {row[0].strip("`") for row in rows(section(RUNNING, "Looking"))}
    assert set(DriverState) <= cells
    assert {"none", "live", "exited", "dead", "foreign"} <= cells


def test_the_files_of_a_run_are_those_that_the_store_has() -> None:
    store = RunStore(Path("run"))
    names = {
        path.name
        for name, member in vars(RunStore).items()
        if isinstance(member, property)
        and isinstance(path := getattr(store, name), Path)
        and path not in (store.path, store.stages_dir)
    }
    stem = Stem("s", "s")
    suffixes = {
        path.name.removeprefix("s")
        for name, member in vars(Stem).items()
        if isinstance(member, property) and isinstance(path := getattr(stem, name), Path)
    } - {""}
    record = store.record_path("<task>", 7, Stage.TEST).relative_to("run")
    prefix = store.stem("<task>", Stage.TEST, 1, 2).relative_to("run")
    cells = [row[0] for row in rows(section(README, "Where things are"))]
    said = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    beside = {"cache/", "events.torn-<N>", "orchestrator-errors.log"}  # by those who write them
    assert {name for name in said if name[0] != "." and "stages/" not in name} == names | beside
    assert {name for name in said if name[0] == "."} == suffixes
    forms = {name for name in said if "stages/" in name}
    filled = {
        form.replace("NN", "07").replace("<stage>", "test").replace("<N>", "1")
        for form in forms
    }  # fmt: skip
    assert filled == {str(record), str(prefix).replace(".d2", "[.d<K>]") + "…"}


def test_a_file_that_others_write_has_the_name_that_is_said(tmp_path: Path) -> None:
    log = failure.Log()
    log.directory = tmp_path
    assert log.write(ValueError()) == str(tmp_path / "orchestrator-errors.log")
    disk = (ROOT / "orchestrator" / "journal" / "disk.py").read_text()
    assert '{self._path.stem}.torn-{number}"' in disk


# -- what a person writes -----------------------------------------------------------------------


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        inner = [
            kind
            for kind in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        if inner:
            yield from keys_of(inner[0], f"{key}.")
        else:
            yield key


def keys_in(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from keys_in(value, f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.fixture
def example(tmp_path: Path) -> Project:
    """The project file of the document, read as a project's own."""
    (tmp_path / "prompts").mkdir()
    for stage in ("scope", "implement", "review"):
        (tmp_path / "prompts" / f"{stage}.md").write_text("Do {context}")
    (tmp_path / "project.toml").write_text(blocks(PROJECT_FILE, "toml")[0])
    return read_project_file(tmp_path / "project.toml", tmp_path)


def test_the_project_file_that_is_shown_has_every_key(example: Project) -> None:
    assert example.name == "sample"
    table = tomllib.loads(blocks(PROJECT_FILE, "toml")[0])
    assert sorted(keys_in(table)) == sorted(keys_of(ProjectFile))


def test_the_project_file_that_is_shown_has_the_defaults(example: Project) -> None:
    default = Project(name="sample", root=example.root, spec=example.spec)
    assert msgspec.structs.replace(
        example.agent, allowed_tools=default.agent.allowed_tools
    ) == default.agent  # fmt: skip
    assert msgspec.structs.replace(example.git, base=default.git.base) == default.git
    assert {stage: example.stage(stage).timeout_s for stage in Stage} == TIMEOUT_S_DEFAULT


def test_the_task_files_that_are_shown_can_be_read(tmp_path: Path) -> None:
    for name, text in (
        ("tasks.toml", blocks(PROJECT_FILE, "toml")[1]),
        (".agent-tasks.json", blocks(PROJECT_FILE, "json")[0]),
    ):
        (tmp_path / name).write_text(text)
        assert len(LocalTasks(tmp_path / name).all()) == 2


def test_the_scenario_that_is_shown_can_be_played(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(blocks(ROOT / "docs" / "rehearsal.md", "toml")[1])
    loaded = scenario.load(str(tmp_path / "scenario.toml"))
    call = loaded.call(scenario.Who("T1", "implement", 1), 1)
    assert [step.kind for step in call.steps] == ["Read", "Write", "Edit", "Bash"]
    (fault,) = loaded.call(scenario.Who("T2", "scope", 1), 1).faults
    assert fault.name == "rate_limited"


def test_the_rehearsal_by_the_project_file_keeps_away_from_real_sessions(tmp_path: Path) -> None:
    table = 'schema = 1\nname = "sample"\n' + blocks(ROOT / "docs" / "rehearsal.md", "toml")[0]
    (tmp_path / "project.toml").write_text(table)
    agent = read_project_file(tmp_path / "project.toml", tmp_path).agent
    assert set(agent.env) == {"CLAUDE_CONFIG_DIR"}


# -- links --------------------------------------------------------------------------------------


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = document if not name else (document.parent / name).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_are_there(document: Path) -> None:
    for name in PATH_IN_PROSE.findall(document.read_text()):
        if list(ROOT.glob(name.rstrip("/"))):
            continue
        module, _, function = name.rpartition(".")
        assert (ROOT / f"{module}.py").is_file(), name
        assert re.search(rf"\b{function}\b", (ROOT / f"{module}.py").read_text()), name


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, queue = {README}, [README]
    while queue:
        document = queue.pop()
        for link in LINK.findall(document.read_text()):
            target = (document.parent / link.partition("#")[0]).resolve()
            found = sorted(target.glob("*.md")) if target.is_dir() else [target]
            new = [path for path in found if path.suffix == ".md" and path not in reached]
            reached.update(new)
            queue += new
    assert set(DOCUMENTS) <= reached


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= README_LINES_MAX


def test_decisions_are_numbered() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert [name[:5] for name in names] == [f"{n:04}-" for n in range(1, len(names) + 1)]
