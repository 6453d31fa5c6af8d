"""What a run was told: its settings and a snapshot of the project file.

Both are part of ``run_created``: nothing is read again from a worktree that an
agent can edit.  ``set`` changes settings by an event; the project never changes.
"""

from collections.abc import Mapping

import msgspec

from orchestrator.core.model import Pipeline, Record, Stage

Argv = tuple[str, ...]
"""A command: an argv list.  One string in a project file becomes ``("sh", "-c", string)``."""


class Settings(Record, frozen=True, kw_only=True):
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
    """Tasks failing in a row, or with one signature, before the run pauses."""
    storm_tasks_max: int = 3
    """Tasks failing in the same way, not about their work, before the run pauses."""
    budget_usd: float | None = None
    retry_delay_s: float = 0.0
    outage_delay_s: float = 60.0
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
