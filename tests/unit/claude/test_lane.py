from pathlib import Path
from typing import Any

import pytest

from adapters.execution.claude.lane import ClaudeLane, another_model
from adapters.execution.lanes import Command, StartAgain
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
from tests.unit.claude.recorded import NOW, failed, init, recording, reply, result, synthetic

ID = SessionId("aaaaaaaa-0000-4000-8000-000000000001")
PROMPT = Path("/srv/run/stages/T1/scope-attempt1.prompt.txt")


def work(stage: Stage = Stage.IMPLEMENT, **more: Any) -> WorkItem:
    fields: dict[str, Any] = {
        "id": WorkItemId("T1/implement/a1/d1"),
        "content_hash": "0" * 64,
        "run_id": "r",
        "task_id": TaskId("T1"),
        "stage": stage,
        "attempt": 1,
        "dispatch": 1,
        "lane": "headless:claude",
        "model": "sonnet",
        "effort": "high",
        "prompt": "secret prompt",
        "output_schema": OUTPUT_SCHEMAS[stage],
        "session_id": ID,
        "resume": False,
        "cwd": "/srv/worktree",
        "timeout_s": 60.0,
        "max_budget_usd": 1.5,
        "env": {},
        "created_at": NOW,
    }
    return WorkItem(**{**fields, **more})


def lane(home: Path, **agent: Any) -> ClaudeLane:
    project = Project(name="p", root=str(home), agent=AgentSettings(**agent))
    return ClaudeLane(project, {"HOME": str(home), "PATH": "/usr/bin"}, now=lambda: NOW)


def keep_transcript(home: Path) -> None:
    path = home / ".claude" / "projects" / "-srv-worktree" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"type":"user","message":{}}\n')


def option(command: Command, name: str) -> str | None:
    for word, following in zip(command.argv, (*command.argv[1:], ""), strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None


def test_session_is_begun_or_resumed_by_evidence(tmp_path: Path) -> None:
    def chosen(*, again: bool) -> tuple[str | None, str | None]:
        command = lane(tmp_path).command(work(resume=True), PROMPT, again=again)
        return option(command, "--session-id"), option(command, "--resume")

    assert chosen(again=False) == (ID, None)
    assert chosen(again=True) == (None, ID)
    keep_transcript(tmp_path)
    assert chosen(again=False) == (None, ID)
    assert chosen(again=True) == (ID, None)


def test_command_of_a_writing_stage(tmp_path: Path) -> None:
    agent = {"command": ("npx", "claude"), "allowed_tools": ("Bash(git *)", "WebFetch")}
    command = lane(tmp_path, **agent).command(work(), PROMPT, again=False)
    assert command.argv[:3] == ("npx", "claude", "-p")
    assert option(command, "--permission-mode") == "acceptEdits"
    assert option(command, "--permission-prompts") == "none"
    assert option(command, "--allowedTools") == "Bash(git *),WebFetch"
    assert option(command, "--tools") is None
    assert option(command, "--model") == "sonnet"
    assert option(command, "--effort") == "high"
    assert option(command, "--max-budget-usd") == "1.500000"
    assert option(command, "--setting-sources") == "user"
    assert (command.cwd, command.stdin) == ("/srv/worktree", PROMPT)


@pytest.mark.parametrize(
    ("allowed", "is_denied"),
    [
        (("Bash(git *)",), True),
        (("Bash",), True),
        (("Bash(git *)", "Bash(git push *)"), False),
        (("Bash(git push origin *)",), False),
    ],
)
def test_a_push_is_denied_unless_the_project_names_it(
    tmp_path: Path, allowed: tuple[str, ...], *, is_denied: bool
) -> None:
    command = lane(tmp_path, allowed_tools=allowed).command(work(), PROMPT, again=False)
    denied = option(command, "--disallowedTools") or ""
    assert ("Bash(git push *)" in denied, "EnterWorktree" in denied) == (is_denied, True)


@pytest.mark.parametrize("stage", [Stage.SCOPE, Stage.IMPLEMENT, Stage.REVIEW])
def test_a_resumed_session_is_told_all_that_a_new_one_is(tmp_path: Path, stage: Stage) -> None:
    """The client restores none of it: a resumed run would lack tools, model and permissions."""

    def words() -> list[str]:
        argv = lane(tmp_path).command(work(stage), PROMPT, again=False).argv
        return [word for word in argv if word not in {"--session-id", "--resume"}]

    fresh = words()
    keep_transcript(tmp_path)
    assert "--resume" in lane(tmp_path).command(work(stage), PROMPT, again=False).argv
    assert words() == fresh


@pytest.mark.parametrize("stage", [Stage.SCOPE, Stage.IMPLEMENT, Stage.REVIEW])
def test_a_task_works_in_one_directory_and_an_issue_is_text(tmp_path: Path, stage: Stage) -> None:
    command = lane(tmp_path).command(work(stage), PROMPT, again=False)
    assert command.cwd == "/srv/worktree"
    assert "--disable-slash-commands" in command.argv


@pytest.mark.parametrize("stage", [Stage.SCOPE, Stage.REVIEW])
def test_reading_stage_cannot_write_whatever_the_project_allows(
    tmp_path: Path, stage: Stage
) -> None:
    agent = {"permission_mode": "bypassPermissions", "allowed_tools": ("Bash", "Write")}
    command = lane(tmp_path, **agent).command(work(stage), PROMPT, again=False)
    assert option(command, "--tools") == "Read,Grep,Glob"
    assert option(command, "--permission-mode") == "dontAsk"
    assert option(command, "--allowedTools") is None
    assert "bypassPermissions" not in command.argv


def test_neither_prompt_nor_secret_is_an_argument(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sk-ant-oat-0123456789")
    command = lane(tmp_path, oauth_token_file="token").command(work(), PROMPT, again=False)
    assert command.env["CLAUDE_CODE_OAUTH_TOKEN"] == "sk-ant-oat-0123456789"
    assert not any("sk-ant" in word or "secret prompt" in word for word in command.argv)


def conclude(
    a_lane: ClaudeLane, item: WorkItem, stdout: bytes, exit_: ChildExit, **more: Any
) -> Ending | StartAgain:
    reader = a_lane.reader(item)
    reader.feed(stdout)
    reader.close()
    return a_lane.conclude(item, reader, exit_, more.get("stderr", ""), again=False)


def ended(a_lane: ClaudeLane, item: WorkItem, stdout: bytes, exit_: ChildExit) -> Ending:
    found = conclude(a_lane, item, stdout, exit_)
    assert isinstance(found, Ending)
    return found


def test_ending_of_a_success(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    item = work(output_schema=None, env={"ANTHROPIC_API_KEY": "sk-ant-dummy"})
    found = ended(lane(tmp_path), item, recording("success-api-key").stdout, ChildExit(code=0))
    assert found.status is ResultStatus.SUCCESS
    assert found.session_id == ID
    assert not found.session_lost
    assert found.cost is not None
    assert found.cost.cost_usd == pytest.approx(0.011832)
    assert found.raw_output == "Done: wrote hello.txt"
    assert found.evidence == {"client_version": "2.1.332", "model": "claude-sonnet-4-6"}


def test_key_from_the_clients_own_settings_is_refused(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    stdout = recording("success-api-key").stdout
    found = ended(lane(tmp_path), work(output_schema=None), stdout, ChildExit(code=0))
    assert found.cause is Cause.MISCONFIGURED
    assert found.cost is not None


def test_session_that_left_no_transcript_is_lost(tmp_path: Path) -> None:
    item = work(output_schema=None)
    stdout = init(session_id=ID) + reply() + result()
    assert ended(lane(tmp_path), item, stdout, ChildExit(code=0)).session_lost
    keep_transcript(tmp_path)
    assert not ended(lane(tmp_path), item, stdout, ChildExit(code=0)).session_lost


def test_transcript_that_could_not_be_written_is_lost(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    lost = b'{"type":"system","subtype":"session_writes_lost","lost":["transcript"]}\n'
    stdout = init(session_id=ID) + reply() + result() + lost
    assert ended(lane(tmp_path), work(output_schema=None), stdout, ChildExit(code=0)).session_lost


def test_failed_start_does_not_change_the_session(tmp_path: Path) -> None:
    recorded = recording("unknown-session")
    found = conclude(lane(tmp_path), work(), recorded.stdout, recorded.exit)
    assert isinstance(found, StartAgain)
    missing = ended(lane(tmp_path), work(), b"", ChildExit(reason="spawn_failed", error="no"))
    assert missing.session_id == ID
    assert missing.cost is None


def test_killed_call_is_charged(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    item = work(env={"ANTHROPIC_API_KEY": "sk-ant-dummy"})
    recorded = recording("signal-KILL")
    found = ended(lane(tmp_path), item, recorded.stdout, recorded.exit)
    assert (found.cause, found.session_lost) == (Cause.CRASH, False)
    assert found.cost is not None
    assert found.cost.cost_usd > 0
    assert found.evidence["unfinished_tools"] == ["Bash"]


@pytest.mark.parametrize(
    ("asked", "answered", "is_another"),
    [
        ("sonnet", "claude-sonnet-4-6", False),
        ("sonnet", "claude-haiku-4-5", True),
        ("claude-opus-5[1m]", "claude-opus-5-20260901", False),
        ("claude-opus-5", "claude-opus-4-6", True),
        ("us.anthropic.claude-opus-5", "claude-opus-5", False),
        ("opusplan", "claude-sonnet-4-6", False),
        ("default", "claude-sonnet-4-6", False),
        ("sonnet", "", False),
    ],
)
def test_a_model_that_was_not_asked_for_is_named(
    asked: str, answered: str, *, is_another: bool
) -> None:
    assert another_model(asked, answered) == (answered if is_another else "")


def test_another_models_answer_is_evidence(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    stdout = init(session_id=ID) + reply() + result()
    item = work(output_schema=None, model="opus")
    found = ended(lane(tmp_path), item, stdout, ChildExit(code=0))
    assert found.evidence["another_model"] == "claude-sonnet-4-6"


def test_last_words_are_the_models_and_not_the_clients(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    said = "API Error: 529 Overloaded"
    stdout = (
        init(session_id=ID) + reply("Half is done.") + synthetic(said, "overloaded") + failed(said)
    )
    found = ended(lane(tmp_path), work(), stdout, ChildExit(code=1))
    assert (found.cause, found.raw_output) == (Cause.OUTAGE, "Half is done.")


def test_an_end_of_the_login_is_evidence(tmp_path: Path) -> None:
    keep_transcript(tmp_path)
    until = "2026-12-24T00:00:00Z"
    stdout = init(session_id=ID) + reply() + result(credential_expires_at=until)
    found = ended(lane(tmp_path), work(output_schema=None), stdout, ChildExit(code=0))
    assert found.evidence["login_ends_at"] == until


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (
            "[claude-code:unrecognized_model] claude-next is not known\n",
            "[claude-code:unrecognized_model] claude-next is not known",
        ),
        ("noise\nThe model claude-old is deprecated\n", "The model claude-old is deprecated"),
        ("Warning: no stdin data received\n", None),
    ],
)
def test_what_the_client_warns_of_a_model_is_evidence_and_no_failure(
    tmp_path: Path, stderr: str, told: str | None
) -> None:
    keep_transcript(tmp_path)
    stdout = init(session_id=ID) + reply() + result()
    item = work(output_schema=None)
    found = conclude(lane(tmp_path), item, stdout, ChildExit(code=0), stderr=stderr)
    assert isinstance(found, Ending)
    assert (found.cause, found.evidence.get("client_warns")) == (None, told)


def test_the_second_start_is_the_other_way_whatever_came_in_between(tmp_path: Path) -> None:
    a_lane, item = lane(tmp_path), work()
    assert option(a_lane.command(item, PROMPT, again=False), "--session-id") == ID
    keep_transcript(tmp_path)  # which is why the first was refused
    assert option(a_lane.command(item, PROMPT, again=True), "--resume") == ID
