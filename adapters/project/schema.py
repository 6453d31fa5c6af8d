"""The shape of ``.orchestrator/project.toml``, and what each of its values may be.

Parsed once, here; the rest of the program sees orchestrator.core.settings.Project.  Whatever
could only fail in the night, at the first child or the first branch, is refused by this module.
"""

import re
import string
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from adapters.project.mistakes import did_you_mean
from orchestrator.core.settings import EFFORTS, Argv, is_model_name

SCHEMA = 1
PERMISSION_MODES = (
    "acceptEdits",
    "auto",
    "bypassPermissions",
    "default",
    "dontAsk",
    "manual",
    "plan",
)
BILLING = ("subscription", "api_key")

PLACEHOLDERS = ("prefix", "run", "task")

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ACCOUNT_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
_NOT_IN_A_REF = re.compile(r"\.\.|@\{|//|[\x00-\x20\x7f~^:?*\[\\]|(^|/)\.|\.lock(/|$)|^/|[/.]$")


def wrong(what: str) -> PydanticCustomError:
    """A mistake that mistakes.usage_of tells as ``<key> <what>``."""
    return PydanticCustomError("wrong", "{what}", {"what": what})


def _argv(value: Any) -> Argv:
    match value:
        case str() if value.strip():
            return ("sh", "-c", value)
        case str():
            return ()
        case list() if all(isinstance(word, str) for word in value):
            if value and not value[0]:
                raise wrong("begins with an empty word: name the program first")
            if any("\0" in word for word in value):
                raise wrong("holds a NUL character, which no command line can")
            return tuple(value)
        case list():
            raise wrong("must hold strings only")
        case _:
            raise wrong("must be a list of words or one string")


def one_of(*known: str) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise wrong(f'may not be "{value}"{did_you_mean(value, known)}')
        return value

    return AfterValidator(check)


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise wrong(f'may not be "{value}": {what}')
        return value

    return AfterValidator(check)


def _template(value: str) -> str:
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(value) if name is not None}
    except ValueError as error:
        raise wrong(f'"{value}" has a brace without its partner') from error
    if unknown := sorted(names.difference(PLACEHOLDERS)):
        raise wrong(f'knows no placeholder "{unknown[0]}"{did_you_mean(unknown[0], PLACEHOLDERS)}')
    if "task" not in names:
        raise wrong(f'"{value}" must hold {{task}}, or all tasks would share it')
    return value


def _branch(value: str) -> str:
    _template(value)
    _ref(value.format(prefix="p", run="r", task="t"))
    return value


def _ref(value: str) -> str:
    if not value or value == "@" or value.startswith("-") or _NOT_IN_A_REF.search(value):
        raise wrong(f'"{value}" is no name that git allows for a branch')
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not _ENVIRONMENT_NAME.fullmatch(name):
            raise wrong(f'holds "{name}", which is no name of an environment variable')
    return value


def _text(value: str) -> str:
    if not value.strip():
        raise wrong("may not be empty")
    if "\0" in value:
        raise wrong("holds a NUL character")
    return value


def _no_list(value: str) -> str:
    if "," in value:
        raise wrong(f'may not be "{value}": one model to an entry')
    return value


def _model(value: str) -> str:
    if not is_model_name(value):
        raise wrong(f'is the name of a model, in one word, not "{value[:40]}"')
    return value


def _known_version(value: int) -> int:
    if value != SCHEMA:
        raise wrong(f"must be {SCHEMA}, the only version that this program reads, not {value}")
    return value


Command = Annotated[Argv, BeforeValidator(_argv)]
EnvironmentName = Annotated[str, _matching(_ENVIRONMENT_NAME, "no name of an environment variable")]
Text = Annotated[str, AfterValidator(_text)]
Model = Annotated[str, AfterValidator(_text), AfterValidator(_model)]
FallbackModel = Annotated[Model, AfterValidator(_no_list)]
Version = Annotated[int, Field(alias="schema"), AfterValidator(_known_version)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


Item = TypeVar("Item")
Items = Annotated[
    tuple[Item, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TasksTable(Table):
    source: Annotated[str, one_of("local", "github")] = "local"
    path: Text = "tasks.toml"


class CommandsTable(Table):
    install: Command = ()
    test: Command = ()
    lint: Command = ()
    typecheck: Command = ()
    reset: Command = ()


class ModelsTable(Table):
    """Per stage that has a model."""

    default: Model | None = None
    scope: Model | None = None
    implement: Model | None = None
    review: Model | None = None


class AgentTable(Table):
    command: Command = ("claude",)
    permission_mode: Annotated[str, one_of(*PERMISSION_MODES)] = "acceptEdits"
    allowed_tools: Items[Text] = ()
    pass_env: Items[EnvironmentName] = ()
    env: Annotated[dict[str, str], AfterValidator(_environment)] = {}
    oauth_token_file: str = ""
    account: Annotated[str, _matching(_ACCOUNT_NAME, "letters, digits, dots, dashes only")] = ""
    billing: Annotated[str, one_of("", *BILLING)] = ""
    fallback_models: Items[FallbackModel] = ()
    models: ModelsTable = ModelsTable()

    @model_validator(mode="after")
    def _one_payer(self) -> Self:
        hands_on = "ANTHROPIC_API_KEY" in (*self.pass_env, *self.env)
        if self.billing == "subscription" and hands_on:
            raise wrong(
                'has billing = "subscription" and hands ANTHROPIC_API_KEY on, which the client'
                " would bill: take it out of pass_env and env"
            )
        return self


class GitTable(Table):
    base: Text | None = None
    branch_prefix: Annotated[str, AfterValidator(_ref)] = "orchestrator"
    branch: Annotated[str, AfterValidator(_branch)] = "{prefix}/{run}/{task}"
    worktrees: Text = ".worktrees"
    worktree: Annotated[str, AfterValidator(_template)] = "{run}/{task}"


class EngineStageTable(Table):
    """A stage without a model: only its time can be set."""

    timeout_s: Positive | None = None


class ModelStageTable(Table):
    prompt: Text | None = None
    timeout_s: Positive | None = None
    effort: Annotated[str, one_of(*EFFORTS)] | None = None
    model: Model | None = None
    max_budget_usd: Positive | None = None


class StagesTable(Table):
    intake: EngineStageTable | None = None
    scope: ModelStageTable | None = None
    implement: ModelStageTable | None = None
    test: EngineStageTable | None = None
    deliver: EngineStageTable | None = None
    review: ModelStageTable | None = None


class ProjectFile(Table):
    version: Version = SCHEMA
    name: Annotated[
        str, _matching(_PROJECT_NAME, "letters, digits, dots, dashes and underscores only")
    ]
    tasks: TasksTable = TasksTable()
    commands: CommandsTable = CommandsTable()
    agent: AgentTable = AgentTable()
    git: GitTable = GitTable()
    stages: StagesTable = StagesTable()
