"""What the steps' program says, and what its silence means."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from adapters.execution.lanes import Lane
from adapters.execution.steps import result
from adapters.execution.steps.lane import LINE_BYTES_MAX, PROGRAM, StepsLane, StepsReader
from orchestrator.core.model import (
    Cause,
    ChildExit,
    Ending,
    ResultStatus,
    Stage,
    TaskId,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.settings import AgentSettings, Project
from orchestrator.ports.execution import ResultSeen

DONE = {
    "type": "stage_result", "status": "success", "cause": None, "error": "",
    "output": {"branch": "b"}, "evidence": {"commit": "c"},
}  # fmt: skip
FAILED = DONE | {"status": "failure", "cause": "tests_failed", "error": "2 fail", "output": None}


def work(**more: Any) -> WorkItem:
    return WorkItem(
        id=WorkItemId("T1/test/a1/d1"), content_hash="", run_id="r", task_id=TaskId("T1"),
        stage=Stage.TEST, attempt=1, dispatch=1, lane="engine:none", model="", effort="",
        prompt="{}", output_schema=None, session_id=None, resume=False, cwd="/w", timeout_s=60.0,
        max_budget_usd=None, created_at=0.0, env=more.get("env", {}),
    )  # fmt: skip


def lane(environ: dict[str, str] | None = None, **agent: Any) -> StepsLane:
    project = Project(name="p", root="/repo", agent=AgentSettings(**agent))
    return StepsLane(project, environ or {})


def conclude(lines: list[dict[str, Any]], exit_: ChildExit, stderr: str = "") -> Ending:
    reader = StepsReader()
    reader.feed("".join(json.dumps(line) + "\n" for line in lines).encode())
    reader.close()
    ending = lane().conclude(work(), reader, exit_, stderr, again=False)
    assert isinstance(ending, Ending)
    return ending


def test_it_is_a_lane() -> None:
    checked: Lane = lane()
    assert isinstance(checked.reader(work()), StepsReader)


def test_its_words_are_those_of_the_model() -> None:
    assert get_args(result.Cause) == result.CAUSES
    assert {Cause(cause).value for cause in result.CAUSES} == set(result.CAUSES)


def test_a_result_line_is_the_verdict_whatever_the_exit_says() -> None:
    done = conclude([DONE], ChildExit(signal=9, reason="deadline"))
    assert (done.status, done.cause) == (ResultStatus.SUCCESS, None)
    assert done.structured_output == {"branch": "b"}
    assert done.evidence == {"commit": "c"}
    failed = conclude([FAILED], ChildExit(code=0))
    assert (failed.status, failed.cause) == (ResultStatus.FAILURE, Cause.TESTS_FAILED)
    assert failed.error == "2 fail"


@pytest.mark.parametrize(
    ("exit_", "status", "cause", "said"),
    [
        (
            ChildExit(reason="spawn_failed", error="no such file"),
            ResultStatus.FAILURE,
            Cause.INFRASTRUCTURE,
            "did not start: no such file",
        ),
        (
            ChildExit(signal=9, reason="deadline", duration_s=60.2),
            ResultStatus.TIMEOUT,
            Cause.TIMEOUT,
            "in the test command beyond the stage's time limit of 60 s",
        ),
        (
            ChildExit(code=130, reason="stopped"),
            ResultStatus.INTERRUPTED,
            Cause.INTERRUPTED,
            "stopped in the test command",
        ),
        (ChildExit(signal=9), ResultStatus.INTERRUPTED, Cause.CRASH, "(SIGKILL): last words"),
        (ChildExit(signal=250), ResultStatus.INTERRUPTED, Cause.CRASH, "(signal 250)"),
        (ChildExit(code=0), ResultStatus.INTERRUPTED, Cause.CRASH, "(exit 0)"),
        (ChildExit(reason="shim_lost"), ResultStatus.INTERRUPTED, Cause.CRASH, "supervisor"),
    ],
)
def test_without_a_result_line_the_exit_says_why(
    exit_: ChildExit, status: ResultStatus, cause: Cause, said: str
) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "step", "name": "lint"},
        {"type": "step", "name": "lint", "exit": 0},
        {"type": "step", "name": "test"},
        {"type": "output", "name": "test", "text": "test_x hangs\n"},
    ]
    ending = conclude(lines, exit_, "Traceback\nlast words\n")
    assert (ending.status, ending.cause) == (status, cause)
    assert said in ending.error
    assert ending.raw_output == "test_x hangs\n"
    assert ending.exit == exit_


def test_a_machine_that_is_short_is_no_verdict(tmp_path: Path) -> None:
    """git is started, and cannot start what it needs."""
    says = "fatal: unable to create threaded lstat: Resource temporarily unavailable"
    short = tmp_path / "git"
    short.write_text(f"#!/bin/sh\necho '{says}' >&2; exit 128\n")
    short.chmod(0o755)
    inputs = {"stage": "test", "root": str(tmp_path), "worktree": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM)],
        input=json.dumps(inputs),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ending = conclude(lines, ChildExit(code=done.returncode))
    assert (ending.status, ending.cause) == (ResultStatus.INTERRUPTED, Cause.CRASH)
    assert "Resource temporarily unavailable" in ending.error


def test_a_torn_result_is_none() -> None:
    reader = StepsReader()
    assert reader.feed(json.dumps(DONE).encode()) == ()
    reader.close()
    assert reader.result is None


def test_the_result_is_told_once_when_its_line_is_whole() -> None:
    reader = StepsReader()
    data = json.dumps(DONE).encode() + b"\n"
    assert reader.feed(data[:20]) == ()
    assert reader.feed(data[20:]) == (ResultSeen(),)
    assert reader.feed(data) == ()


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=50),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(),
                lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
                max_leaves=4,
            ).map(lambda value: json.dumps(value).encode()),
            st.fixed_dictionaries(
                {"type": st.sampled_from(["stage_result", "output", "step", "x"])},
                optional={
                    name: st.none() | st.text() | st.integers() | st.lists(st.none())
                    for name in ("status", "cause", "error", "evidence", "text", "name", "exit")
                },
            ).map(lambda value: json.dumps(value).encode()),
        ),
        max_size=6,
    )
)
def test_nothing_a_child_prints_breaks_it(lines: list[bytes]) -> None:
    reader = StepsReader()
    for line in lines:
        reader.feed(line + b"\n")
    reader.close()
    ending = lane().conclude(work(), reader, ChildExit(code=0), "", again=False)
    assert isinstance(ending, Ending)
    assert (ending.cause is None) == (ending.status is ResultStatus.SUCCESS)


def test_deep_and_long_lines_are_passed_over() -> None:
    reader = StepsReader()
    reader.feed(b"[" * 200_000 + b"\n" + b"x" * (LINE_BYTES_MAX + 1) + b"\n")
    reader.feed(json.dumps(DONE).encode() + b"\n")
    assert reader.result == DONE
    assert (reader.unreadable_count, reader.oversize_count) == (1, 1)


def test_the_command_is_isolated_and_gets_no_credential_of_a_model() -> None:
    environ = {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C.UTF-8", "PYTHONPATH": "/evil", "TOKEN": "t",
        "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_OAUTH_TOKEN": "o", "DATABASE_URL": "d",
    }  # fmt: skip
    command = lane(environ, pass_env=("DATABASE_URL", "ANTHROPIC_API_KEY")).command(
        work(env={"MODE": "test", "CLAUDE_CODE_OAUTH_TOKEN": "o"}), Path("/p"), again=False
    )
    assert command.argv[1:3] == ("-I", "-S")
    assert (command.cwd, command.stdin) == ("/repo", Path("/p"))
    assert command.env == {
        "PATH": "/bin", "HOME": "/h", "LC_ALL": "C.UTF-8", "DATABASE_URL": "d", "MODE": "test",
        "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8", "PYTHONUTF8": "1",
    }  # fmt: skip
