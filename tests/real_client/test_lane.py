"""The lane ``headless:claude`` on both agents: its command line is accepted, its stream is read,
and every ending means what it should."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from adapters.execution.claude.lane import ClaudeLane
from adapters.execution.lanes import StartAgain
from orchestrator.core.model import (
    Cause,
    ChildExit,
    Ending,
    ResultStatus,
    SessionId,
    Stage,
    TaskId,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.outputs import OUTPUT_SCHEMAS
from orchestrator.core.settings import AgentSettings, Project
from tests.loopback_api import Reply, Request, ToolUse, replies
from tests.real_client.agents import LIMIT_RESETS_IN_S, PROMPT, Act, Agent, RealAgent, Trouble
from tests.real_client.client import API_KEY, SUBSCRIPTION, Child, new_session, wait_until

_SUMMARY = {"summary": "Done.", "files_changed": [], "notes": ""}
_WORKS = Act(steps=(ToolUse("Write", {"file_path": "a.txt", "content": "x"}),), output=_SUMMARY)


class LaneRun:
    """What the executor does with a lane, without its supervision."""

    def __init__(
        self,
        agent: Agent,
        credential: Mapping[str, str] = API_KEY,
        allowed_tools: tuple[str, ...] = (),
        permission_mode: str = "acceptEdits",
        fallback_models: tuple[str, ...] = (),
        retries: int = 1,
    ) -> None:
        client = agent.client
        # Fewer retries than in life: the tests do not wait out an outage.
        env = {"ANTHROPIC_BASE_URL": client.url, "CLAUDE_CODE_MAX_RETRIES": str(retries)}
        env |= {"IS_SANDBOX": "1"}  # root may bypass permissions
        self._settings = AgentSettings(
            command=client.command,
            pass_env=("ANTHROPIC_API_KEY",),
            env=env,
            allowed_tools=allowed_tools,
            permission_mode=permission_mode,
            fallback_models=fallback_models,
        )
        project = Project(name="p", root=str(agent.work), agent=self._settings)
        environ = {"HOME": str(client.home), "PATH": "/usr/bin:/bin", **credential}
        self.lane = ClaudeLane(project, environ)
        self.agent = agent

    def work(
        self, stage: Stage = Stage.IMPLEMENT, *, session: str, before: object = None
    ) -> WorkItem:
        return WorkItem(
            id=WorkItemId(f"T1/{stage}/a1/d1"),
            content_hash="0" * 64,
            run_id="r",
            task_id=TaskId("T1"),
            stage=stage,
            attempt=1,
            dispatch=1,
            lane="headless:claude",
            model="claude-sonnet-4-6",
            effort="",
            prompt=PROMPT,
            output_schema=OUTPUT_SCHEMAS[stage],
            session_id=SessionId(session),
            resume=False,
            cwd=str(self.agent.work),
            timeout_s=60.0,
            max_budget_usd=None,
            env=self._settings.env,
            created_at=0.0,
            inputs={"session_before": before or {"total_usd": 0.0, "usage": {}, "calls": 0}},
        )

    def start(self, act: Act, work: WorkItem, *, again: bool = False) -> Child:
        self.agent.tell(act)
        prompt = self.agent.client.home.parent / "prompt.txt"
        prompt.write_text(work.prompt)
        command = self.lane.command(work, prompt, again=again)
        return self.agent.client.spawn(command.argv, command.env, command.stdin, Path(command.cwd))

    def conclude(self, child: Child, work: WorkItem, *, again: bool = False) -> Ending | StartAgain:
        ran = child.wait()
        reader = self.lane.reader(work)
        reader.feed(child.stdout.read_bytes())
        reader.close()
        exit_ = ChildExit(code=ran.exit) if ran.exit >= 0 else ChildExit(signal=-ran.exit)
        return self.lane.conclude(work, reader, exit_, ran.stderr, again=again)

    def run(self, act: Act, work: WorkItem) -> Ending:
        ending = self.conclude(self.start(act, work), work)
        assert isinstance(ending, Ending), ending
        return ending


def test_a_stage_succeeds_with_its_output_and_its_cost(agent: Agent) -> None:
    lane, session = LaneRun(agent), new_session()
    ending = lane.run(_WORKS, lane.work(session=session))

    assert (ending.status, ending.cause) == (ResultStatus.SUCCESS, None)
    assert ending.structured_output == _SUMMARY
    assert ending.session_id == session
    assert ending.cost is not None
    assert ending.cost.cost_usd > 0
    assert ending.cost.cost_usd == pytest.approx(ending.cost.session_total_usd)
    assert (agent.work / "a.txt").exists()


def test_each_call_of_a_session_costs_its_own_share(agent: Agent) -> None:
    lane, session = LaneRun(agent), new_session()
    first = lane.run(_WORKS, lane.work(session=session)).cost
    assert first is not None
    before = {
        "total_usd": first.session_total_usd,
        "usage": msgspec.to_builtins(first.by_model),
        "calls": 1,
    }
    second = lane.run(_WORKS, lane.work(session=session, before=before)).cost

    assert second is not None
    assert second.cost_usd == pytest.approx(first.cost_usd)
    assert second.session_total_usd == pytest.approx(first.cost_usd + second.cost_usd)
    assert second.output_tokens == first.output_tokens


@pytest.mark.parametrize("stage", [Stage.SCOPE, Stage.REVIEW])
def test_a_reading_stage_cannot_write(agent: Agent, stage: Stage) -> None:
    outputs = {
        Stage.SCOPE: {"feasible": True, "plan": [], "risks": []},
        Stage.REVIEW: {"approved": True, "issues": [], "non_blocking": []},
    }
    writes = (*_WORKS.steps, ToolUse("Bash", {"command": "touch b.txt"}))
    lane = LaneRun(agent)
    ending = lane.run(
        Act(steps=writes, output=outputs[stage]), lane.work(stage, session=new_session())
    )

    assert ending.status is ResultStatus.SUCCESS
    assert list(agent.work.iterdir()) == []


_PUSHES = (
    "git push origin HEAD:a",
    "git push",
    "git -C . push origin HEAD:b",
    "git --no-pager push",
    "cd . && git push origin HEAD:c",
)
_OTHERS = ("git commit -q --allow-empty -m push", "git stash push", "git status", "git remote -v")


def _with_a_remote(agent: Agent) -> Path:
    """Makes the working directory a repository from which a bare push would arrive there."""
    remote = agent.work.parent / "remote.git"
    for command in (
        f"init -q --bare {remote}",
        "init -q -b main",
        f"remote add origin {remote}",
        "config push.autoSetupRemote true",
        "config user.name a",
        "config user.email a@b.invalid",
        "commit -q --allow-empty -m base",
    ):
        subprocess.run(["git", *command.split()], cwd=agent.work, check=True)
    return remote


def _refs(repository: Path) -> list[str]:
    listed = ["git", "-C", str(repository), "for-each-ref", "--format=%(refname:short)"]
    return subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()


def _runs(*commands: str) -> Act:
    steps = (ToolUse("Bash", {"command": command}) for command in commands)
    return Act(steps=tuple(steps), output=_SUMMARY)


def test_implement_uses_git_and_pushes_nothing(agent: Agent) -> None:
    remote = _with_a_remote(agent)
    lane = LaneRun(agent, allowed_tools=("Bash(git *)",))
    ending = lane.run(_runs(*_PUSHES, *_OTHERS), lane.work(session=new_session()))

    assert ending.status is ResultStatus.SUCCESS
    assert ending.evidence["denied_tools"] == ["Bash"]
    assert _refs(remote) == []
    log = subprocess.check_output(["git", "log", "-1", "--format=%s"], cwd=agent.work, text=True)
    assert log.strip() == "push"


def test_a_push_that_the_project_names_arrives(agent: Agent) -> None:
    remote = _with_a_remote(agent)
    lane = LaneRun(agent, allowed_tools=("Bash(git push origin *)",))
    lane.run(_runs(_PUSHES[0], _PUSHES[2]), lane.work(session=new_session()))

    assert _refs(remote) == ["a"]


def test_an_output_that_does_not_fit_is_invalid(agent: Agent) -> None:
    lane = LaneRun(agent)
    ending = lane.run(Act(output={"summary": 1}), lane.work(session=new_session()))

    assert ending.status is ResultStatus.SCHEMA_VIOLATION
    assert ending.cause is Cause.INVALID_OUTPUT
    assert ending.cost is not None
    assert ending.cost.cost_usd > 0


def test_a_full_window_is_a_limit_with_its_end(agent: Agent) -> None:
    lane = LaneRun(agent, SUBSCRIPTION)
    before = time.time()
    ending = lane.run(Act(trouble=Trouble.LIMIT), lane.work(session=new_session()))

    assert (ending.status, ending.cause) == (ResultStatus.RATE_LIMITED, Cause.LIMIT)
    assert ending.resets_at == pytest.approx(before + LIMIT_RESETS_IN_S, abs=30)
    (rejected,) = (window for window in ending.windows if window.status == "rejected")
    assert (rejected.name, rejected.resets_at) == ("five_hour", ending.resets_at)


@pytest.mark.parametrize("credential", [API_KEY, SUBSCRIPTION], ids=["key", "subscription"])
def test_throttling_is_an_outage_and_no_limit(agent: Agent, credential: Mapping[str, str]) -> None:
    """Waiting for a reset that was never named would stop the run for a quarter of an hour."""
    lane = LaneRun(agent, credential)
    ending = lane.run(Act(trouble=Trouble.THROTTLED), lane.work(session=new_session()))

    assert ending.cause is Cause.OUTAGE
    assert ending.resets_at is None


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        (Trouble.OVERLOADED, Cause.OUTAGE),
        (Trouble.UNAUTHORIZED, Cause.AUTH),
        (Trouble.NO_CREDIT, Cause.BILLING),
    ],
)
def test_what_the_provider_refuses_has_its_cause(
    agent: Agent, trouble: Trouble, cause: Cause
) -> None:
    lane = LaneRun(agent)
    ending = lane.run(Act(trouble=trouble), lane.work(session=new_session()))

    assert ending.cause is cause
    assert ending.error


def test_killed_in_a_tool_it_is_a_crash_whose_session_goes_on(agent: Agent) -> None:
    lane, session = LaneRun(agent, allowed_tools=("Bash",)), new_session()
    waits = Act(steps=(ToolUse("Bash", {"command": "touch begun; sleep 300"}),), output=_SUMMARY)
    work = lane.work(session=session)
    child = lane.start(waits, work)
    wait_until((agent.work / "begun").exists, "the tool runs")
    child.note_descendants()
    child.signal(signal.SIGKILL)
    crashed = lane.conclude(child, work)
    resumed = lane.run(_WORKS, work)

    assert isinstance(crashed, Ending)
    assert crashed.cause is Cause.CRASH
    assert not crashed.session_lost
    assert resumed.status is ResultStatus.SUCCESS
    assert resumed.session_id == session
    assert len(agent.transcripts(session)) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_the_wrong_way_to_begin_asks_for_the_other(agent: Agent, exists: bool) -> None:
    lane, session = LaneRun(agent), new_session()
    work = lane.work(session=session)
    if exists:
        lane.run(_WORKS, work)
    # What the evidence says is right, so the other way is wrong.
    wrong = lane.conclude(lane.start(_WORKS, work, again=True), work)
    right = lane.conclude(lane.start(_WORKS, work), work, again=True)

    assert isinstance(wrong, StartAgain)
    assert isinstance(right, Ending)
    assert right.status is ResultStatus.SUCCESS


def test_a_client_that_is_not_there_is_a_matter_of_configuration(agent: Agent) -> None:
    lane = LaneRun(agent)
    work = lane.work(session=new_session())
    exit_ = ChildExit(reason="spawn_failed", error="No such file or directory: claude")
    ending = lane.lane.conclude(work, lane.lane.reader(work), exit_, "", again=False)

    assert isinstance(ending, Ending)
    assert ending.cause is Cause.MISCONFIGURED


# Where the rehearsal agent does not pretend to be the client.


@pytest.fixture
def real(real_client: Path, tmp_path: Path) -> Iterator[RealAgent]:
    agent = RealAgent(real_client, tmp_path)
    yield agent
    agent.close()


@pytest.mark.real_client
@pytest.mark.slow
def test_the_repository_configures_nothing_but_gives_instructions(real: RealAgent) -> None:
    hook = [{"hooks": [{"type": "command", "command": f"touch {real.work}/hook.ran"}]}]
    settings = {
        "hooks": {"SessionStart": hook, "Stop": hook, "PreToolUse": hook},
        "env": {"FROM_SETTINGS": "set-by-the-repository"},
        "apiKeyHelper": f"touch {real.work}/helper.ran",
    }
    servers = {"x": {"command": "touch", "args": [f"{real.work}/server.ran"]}}
    (real.work / ".claude").mkdir()
    (real.work / ".claude" / "settings.json").write_text(json.dumps(settings))
    (real.work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (real.work / "CLAUDE.md").write_text("Prefer tabs, says the repository.")
    lane = LaneRun(real, allowed_tools=("Bash",))
    prints = ToolUse("Bash", {"command": "printenv FROM_SETTINGS; echo printed"})
    lane.run(Act(steps=(prints,), output=_SUMMARY), lane.work(session=new_session()))

    assert [path.name for path in real.work.iterdir() if path.name.endswith(".ran")] == []
    assert b"Prefer tabs, says the repository" in real.api.requests[0].raw
    assert real.api.requests[-1].tool_results[0].strip().endswith("printed")
    assert b"set-by-the-repository" not in real.api.requests[-1].raw


@pytest.mark.real_client
@pytest.mark.slow
def test_a_prompt_that_is_a_command_is_no_success(real: RealAgent) -> None:
    lane = LaneRun(real)
    work = msgspec.structs.replace(lane.work(session=new_session()), prompt="/clear\n")

    assert lane.run(_WORKS, work).cause is Cause.INVALID_OUTPUT


@pytest.mark.real_client
@pytest.mark.slow
def test_an_implement_request_offers_no_tool_that_waits_or_leaves(real: RealAgent) -> None:
    lane = LaneRun(real)
    lane.run(_WORKS, lane.work(session=new_session()))

    offered = set(real.api.requests[0].tools)
    assert {"Bash", "Edit", "Read", "Write", "StructuredOutput"} <= offered
    unwanted = {"AskUserQuestion", "CronCreate", "EnterWorktree", "Monitor", "ScheduleWakeup"}
    assert offered.isdisjoint(unwanted | {"SendMessage", "Workflow"})


@pytest.mark.real_client
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "mode"),
    [("Bash(git *)", "acceptEdits"), ("Bash", "acceptEdits"), ("Bash", "bypassPermissions")],
)
def test_no_form_of_a_push_that_the_client_sees_arrives(
    real: RealAgent, rule: str, mode: str
) -> None:
    remote = _with_a_remote(real)
    hidden = (
        "git  push origin HEAD:d",
        "env git push origin HEAD:e",
        "GIT_TRACE=0 git push origin HEAD:f",
        "/usr/bin/git push origin HEAD:g",
        "(git push origin HEAD:h)",
        "echo $(git push origin HEAD:i)",
        "for x in 1; do git push origin HEAD:j; done",
        "git -c a.b=c push origin HEAD:k",
    )
    lane = LaneRun(real, allowed_tools=(rule,), permission_mode=mode)
    other = "python3 -c \"open('ran', 'w')\""
    lane.run(_runs(*_PUSHES, *hidden, other), lane.work(session=new_session()))

    assert _refs(remote) == []
    assert (real.work / "ran").exists() is (rule == "Bash")


@pytest.mark.real_client
@pytest.mark.slow
def test_denying_a_push_leaves_the_request_as_it_is(real: RealAgent) -> None:
    """Otherwise it would cost the prompt cache."""
    for allowed in (("Bash(git *)",), ("Bash(git *)", "Bash(git push *)")):
        lane = LaneRun(real, allowed_tools=allowed)
        lane.run(Act(output=_SUMMARY), lane.work(session=new_session()))
    denying, *_, allowing = (
        request for request in real.api.requests if request.turn == 0 and request.tools
    )

    assert denying.session_id != allowing.session_id
    assert denying.cache_prefix() == allowing.cache_prefix()


@pytest.mark.real_client
@pytest.mark.slow
def test_another_model_goes_on_where_one_is_overloaded(real: RealAgent) -> None:
    """The client takes it after the third refusal."""

    def overloaded_but_for_haiku(request: Request) -> Reply:
        if "haiku" not in request.model:
            return replies.overloaded()
        return answers(request)

    lane = LaneRun(real, fallback_models=("claude-haiku-4-5",), retries=3)
    work = lane.work(session=new_session())
    real.tell(_WORKS)
    answers = real.api.script
    child = lane.start(_WORKS, work)
    real.api.script = overloaded_but_for_haiku
    ending = lane.conclude(child, work)

    assert isinstance(ending, Ending)
    assert ending.status is ResultStatus.SUCCESS, ending.error
    assert ending.structured_output == _SUMMARY
    assert "haiku" in ending.evidence["another_model"]
    asked = [request.model for request in real.api.requests]
    assert "sonnet" in asked[0]
    assert "haiku" in asked[-1]
