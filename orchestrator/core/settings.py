"""What a run was told: its settings and a snapshot of the project file.

Both are part of ``run_created``: nothing is read again from a worktree that an
agent can edit.  ``set`` changes settings by an event; the project never changes.
"""

from collections.abc import Mapping

import msgspec

from orchestrator.core.model import Pipeline, Record, Stage

EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""What a model can be told, least first."""

MODEL_CHARS_MAX = 200

Argv = tuple[str, ...]
"""A command: an argv list.  One string in a project file becomes ``("sh", "-c", string)``."""


def is_model_name(text: str) -> bool:
    """It becomes a word of the client's command line: no flag, and no line that is too long."""
    is_one_word = not any(char.isspace() or not char.isprintable() for char in text)
    return 0 < len(text) <= MODEL_CHARS_MAX and is_one_word and not text.startswith("-")


class Settings(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Written down whole: what a run was told stays, though a later version has other defaults."""

    pipeline: Pipeline = Pipeline.FULL
    max_concurrent: int = 3
    attempts_max: int = 3
    send_backs_max: int = 2
    """How often review may send a task back to implement."""
    infrastructure_retries_max: int = 2
    rotations_max: int = 2
    """Fresh sessions that one attempt may have where its session cannot go on."""
    dispatches_max: int = 8
    """Crashes of one attempt before the task is given up: a bound on crash loops."""
    failing_tasks_max: int = 3
    """Tasks failing in a row, or with one signature, before the run pauses; 0: never."""
    storm_tasks_max: int = 3
    """Tasks failing in the same way, not about their work, before the run pauses."""
    budget_usd: float | None = None
    task_budget_usd: float | None = None
    """What each task may cost in all its stages; one task's own goes before it."""
    scope_budget_usd: float | None = None
    """What this stage of one task may cost in a round; goes before the project file's."""
    implement_budget_usd: float | None = None
    review_budget_usd: float | None = None
    spend_ratio_max: float = 4.0
    """The run pauses where its last attempts cost this many times what was expected; 0: never."""
    zero_work_max: int = 3
    """Calls in a row that failed without any work before the run pauses; 0: never."""
    headroom_share: float = 0.1
    """Of a usage window, 0 to 1: kept for the human."""
    window_easy_share: float = 0.7
    """Of a usage window: up to here the full limit holds, then it falls."""
    allow_overage: bool = False
    """Whether to go on where the account pays for use beyond its window."""
    host_children_max: int = 16
    """Children of all drivers on this host; 0: not counted."""
    child_memory_mb: float = 300.0
    """What a child is expected to need until it is learned."""
    memory_free_min_mb: float = 500.0
    """Left free for all else on the host; 0: memory is not looked at."""
    disk_free_min_mb: float = 500.0
    """Under the run and under the worktrees; 0: not looked at."""
    load_per_core_max: float = 8.0
    """Of the last minute: above it nothing starts beside what runs; 0: not looked at."""
    models: dict[str, str] = msgspec.field(default_factory=dict)
    """Stage or ``default`` -> model: goes before the project file's.  Changes are merged in."""
    efforts: dict[str, str] = msgspec.field(default_factory=dict)
    """Stage or ``default`` -> effort."""
    paused_lanes: tuple[str, ...] = ()
    """On these nothing new starts."""
    start_gap_s: float = 0.1
    """Between the starts of two stages with a model."""
    retry_delay_s: float = 0.0
    outage_delay_s: float = 60.0
    crash_delay_s: float = 10.0
    """Before an attempt that has died twice goes on; doubled each time."""
    limit_delay_s: float = 900.0
    """How long to wait out a usage limit that did not say when it ends."""
    limit_jitter_s: float = 60.0
    limit_probe_s: float = 300.0
    """How long to wait for a limit that outlasts its reset; doubled with each probe."""
    drain_s: float = 10.0
    """How long the first Ctrl-C waits for results."""
    interrupt_wait_s: float = 5.0
    """Stopping a child: between SIGINT and SIGTERM."""
    terminate_wait_s: float = 5.0
    """Stopping a child: between SIGTERM and SIGKILL."""
    result_linger_s: float = 15.0
    """How long a child may live on after its result."""
    first_event_s: float = 180.0
    """How long a model's client may take to say its first word; 0: for ever."""
    idle_s: float = 900.0
    """How long nothing of a model's client may move, outside of a tool's own time; 0: for ever."""
    keep_worktrees: bool = False


class StageSettings(Record, frozen=True, kw_only=True):
    prompt: str | None = None
    """The text of the project's own template, read when the run was made."""
    timeout_s: float | None = None
    effort: str | None = None
    model: str | None = None
    max_budget_usd: float | None = None
    """What the stage may cost for one task, in all its calls of a round."""


class Commands(Record, frozen=True, kw_only=True):
    """The project's own commands.  Empty: not done, and said so."""

    install: Argv = ()
    test: Argv = ()
    lint: Argv = ()
    typecheck: Argv = ()
    reset: Argv = ()


class AgentSettings(Record, frozen=True, kw_only=True):
    command: Argv = ("claude",)
    permission_mode: str = "acceptEdits"
    allowed_tools: tuple[str, ...] = ()
    pass_env: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)
    oauth_token_file: str = ""
    account: str = ""
    """A name for the account that pays; empty: derived from where its login is kept."""
    billing: str = ""
    """``subscription`` or ``api_key``: another source stops the run.  Empty: ``api_key`` where
    ANTHROPIC_API_KEY is handed on, otherwise ``subscription``."""
    fallback_models: tuple[str, ...] = ()
    """Taken by the client, in turn, where a model is overloaded."""


class GitSettings(Record, frozen=True, kw_only=True):
    base: str = "HEAD"
    """A branch name, or HEAD: resolved to ``base_commit`` when the run is made."""
    base_commit: str = ""
    branch_prefix: str = "orchestrator"
    branch: str = "{prefix}/{run}/{task}"
    worktrees: str = ".worktrees"
    worktree: str = "{run}/{task}"


class TaskSource(Record, frozen=True, kw_only=True):
    kind: str = "local"
    path: str = ""


class Project(Record, frozen=True, kw_only=True):
    """The project file, validated and with its prompt files read in."""

    name: str
    root: str
    """The repository's top directory, absolute."""
    spec: str = ""
    """What ``--project`` said: tells a later command how to find the adapter again."""
    tasks: TaskSource = TaskSource()
    commands: Commands = Commands()
    agent: AgentSettings = AgentSettings()
    models: dict[str, str] = msgspec.field(default_factory=dict)
    git: GitSettings = GitSettings()
    stages: dict[str, StageSettings] = msgspec.field(default_factory=dict)

    def stage(self, stage: Stage) -> StageSettings:
        return self.stages.get(stage.value, _NO_STAGE_SETTINGS)


_NO_STAGE_SETTINGS = StageSettings()

TIMEOUT_S_DEFAULT: Mapping[Stage, float] = {
    Stage.INTAKE: 1800.0,
    Stage.SCOPE: 1800.0,
    Stage.IMPLEMENT: 3600.0,
    Stage.TEST: 3600.0,
    Stage.DELIVER: 300.0,
    Stage.REVIEW: 1800.0,
}

MODEL_DEFAULT = "sonnet"
