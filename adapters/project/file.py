"""Find the project that ``--project`` means, and read its file into a Project.

Every way in which this can fail is one line: what was tried, or the file, the line, the key and
the nearest known key.  The Project is a whole snapshot: prompt files are read in.
"""

import importlib
import re
from importlib import metadata
from pathlib import Path
from types import ModuleType

import msgspec
from pydantic import ValidationError

from adapters.project.mistakes import LineOf, at, usage_of
from adapters.project.schema import ModelStageTable, ProjectFile, StagesTable
from adapters.project.text import parse_toml, read_text, shown_path, why_not
from adapters.project.toml_lines import toml_positions
from orchestrator.core.errors import OrchestratorError, Refused, Usage
from orchestrator.core.settings import (
    AgentSettings,
    Commands,
    GitSettings,
    Project,
    StageSettings,
    TaskSource,
)
from orchestrator.core.words import is_text
from orchestrator.given_file import read_given

PROJECT_FILE = Path(".orchestrator", "project.toml")
ENTRY_POINTS = "orchestrator.project_adapters"

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


def load_project(spec: str | None, cwd: Path) -> Project:
    """The project that ``spec`` names; None: that of the repository around ``cwd``.

    ``spec`` is a directory that holds ``.orchestrator/project.toml``, a path to such a file, an
    entry point of the group ``orchestrator.project_adapters``, or a dotted module.  The last two
    have ``project() -> Project``.  Raises Usage; Refused outside a git repository.
    """
    if spec is None:
        path = _search_upwards(cwd)
        return _from_file(path)
    path = Path(cwd, Path(spec).expanduser())
    if path.is_file():
        return _from_file(path.resolve())
    if path.is_dir():
        if (path / PROJECT_FILE).is_file():
            return _from_file(path.resolve() / PROJECT_FILE)
        raise Usage(
            f"{path.resolve()} holds no {PROJECT_FILE}: `orchestrator init-project` writes a first"
            " one there"
        )
    return msgspec.structs.replace(_from_code(spec, path), spec=spec)


def read_project_file(path: Path, root: Path) -> Project:
    """The project that the file at ``path`` describes, for the repository at ``root``.

    Raises Usage.
    """
    shown = shown_path(path)
    if not is_text(str(root)):
        raise Usage(f"{root}: the path of the repository is not UTF-8: give it another name")
    text = read_text(path, shown)
    document = parse_toml(text, shown)
    line_of = toml_positions(text)
    try:
        parsed = ProjectFile.model_validate(document)
    except ValidationError as error:
        raise usage_of(error, ProjectFile, shown, line_of) from error
    return Project(
        name=parsed.name,
        root=str(root),
        spec=str(path),
        tasks=TaskSource(kind=parsed.tasks.source, path=parsed.tasks.path),
        commands=Commands(**dict(parsed.commands)),
        agent=AgentSettings(
            command=parsed.agent.command or ("claude",),
            permission_mode=parsed.agent.permission_mode,
            allowed_tools=parsed.agent.allowed_tools,
            pass_env=parsed.agent.pass_env,
            env=parsed.agent.env,
            oauth_token_file=parsed.agent.oauth_token_file,
            account=parsed.agent.account,
            billing=parsed.agent.billing,
            fallback_models=parsed.agent.fallback_models,
        ),
        models=parsed.agent.models.model_dump(exclude_none=True),
        git=GitSettings(**parsed.git.model_dump(exclude_none=True)),
        stages=_stages(parsed.stages, root, shown, line_of),
    )


def notes(project: Project) -> tuple[str, ...]:
    """What a person should hear about this project before a run is made from it."""
    found = [
        f"no {name} command in [commands]: not done"
        for name in ("test", "install", "lint", "typecheck")
        if not getattr(project.commands, name)
    ]
    if project.agent.permission_mode == "bypassPermissions":
        found.append(
            "[agent] permission_mode is bypassPermissions: the agent may run any command unasked"
        )
    found += [
        f"[agent.env] sets {name}, and the value is kept in the run's journal:"
        " name it in pass_env instead"
        for name in project.agent.env
        if _SECRET.search(name)
    ]
    return tuple(found)


def _search_upwards(cwd: Path) -> Path:
    start = cwd.resolve()
    for directory in (start, *start.parents):
        if (directory / PROJECT_FILE).is_file():
            return directory / PROJECT_FILE
        if (directory / ".git").exists():
            raise Usage(
                f"{directory} holds no {PROJECT_FILE}: `orchestrator init-project` writes a first"
                " one, or name a project with --project"
            )
    raise Usage(f"{start} is in no git repository: name a project with --project, or cd to one")


def _from_file(path: Path) -> Project:
    in_its_place = path.parts[-2:] == PROJECT_FILE.parts
    tops = (path.parent.parent,) if in_its_place else path.parents
    for top in tops:
        if (top / ".git").exists():
            return read_project_file(path, root=top)
    if in_its_place:
        raise Refused(
            f"{path.parent.parent} is not the top of a git repository: `git init` it and commit,"
            f" or move {PROJECT_FILE.parent} to the top"
        )
    raise Refused(f"{shown_path(path)} is in no git repository: put it into the project's own")


def _from_code(spec: str, path: Path) -> Project:
    """The project of an entry point or a module.  What they raise is told, never let through."""
    try:
        entries = metadata.entry_points(group=ENTRY_POINTS)
        if spec in entries.names:
            adapter = entries[spec].load()
        else:
            adapter = _module(spec, f"the path {path}, {_entry_points(entries.names)}")
        make = adapter if callable(adapter) else getattr(adapter, "project", None)
        made = make() if callable(make) else None
    except OrchestratorError:
        raise
    except Exception as error:
        raise Usage(f"--project {spec} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Project):
        raise Usage(f"--project {spec}: it has no project() that returns a Project")
    return made


def _entry_points(names: set[str]) -> str:
    known = f" (there are: {', '.join(sorted(names))})" if names else ""
    return f"the entry points of {ENTRY_POINTS}{known}"


def _module(spec: str, tried: str) -> ModuleType:
    if not all(name.isidentifier() for name in spec.split(".")):
        raise Usage(f"no project {spec!r}: tried {tried}")
    try:
        return importlib.import_module(spec)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{spec}.".startswith(f"{error.name}."):
            raise
        raise Usage(f"no project {spec!r}: tried {tried} and the module {spec}") from error


def _stages(
    parsed: StagesTable, root: Path, shown: str, line_of: LineOf
) -> dict[str, StageSettings]:
    stages: dict[str, StageSettings] = {}
    for name, table in parsed:
        match table:
            case ModelStageTable(prompt=str() as prompt):
                line = line_of(("stages", name, "prompt"))
                text = _prompt(root / prompt, prompt, at(shown, line, f"stages.{name}.prompt"))
                stages[name] = StageSettings(**{**dict(table), "prompt": text})
            case None:
                pass
            case _:
                stages[name] = StageSettings(**dict(table))
    return stages


def _prompt(path: Path, written: str, key: str) -> str:
    try:
        text = read_given(path).decode("utf-8-sig")
    except OSError as error:
        raise Usage(f'{key}: "{written}": {why_not(error)} (looked for {path})') from error
    except UnicodeDecodeError as error:
        raise Usage(f'{key}: "{written}" is not UTF-8 text') from error
    if not text.strip():
        raise Usage(f'{key}: "{written}" is empty')
    return text
