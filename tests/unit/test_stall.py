"""What is seen of a child, and what it is taken for."""

from typing import Any

import msgspec
import pytest

from adapters.execution.claude.classify import Ended, Verdict, classify
from adapters.execution.claude.environment import HEADLESS
from adapters.execution.claude.stream import ClaudeReader
from adapters.execution.stall import (
    QUIET_S,
    TOOL_SLACK_S,
    Kind,
    Signs,
    Told,
    Tool,
    Vigil,
    judge,
    sentence,
)
from orchestrator.core.model import Cause, ChildExit
from orchestrator.core.settings import Settings

FIRST_S, IDLE_S = Settings().first_event_s, Settings().idle_s

MUTE = {"has_spoken": False}
BASH = {"tool": "Bash", "tool_timeout_s": 600.0}


def signs(still_s: float, **fields: Any) -> Signs:
    return Signs(**({"since_start_s": 5000.0, "silence_s": still_s, "still_s": still_s} | fields))


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        # Its start: nothing is said before the first event.
        (signs(1, **MUTE), Kind.WORKING),
        (signs(FIRST_S - 1, **MUTE), Kind.SLOW),
        (signs(FIRST_S, **MUTE), Kind.HUNG),
        # It uses CPU, or writes: a slow machine.  But not for ever.
        (signs(5, silence_s=FIRST_S * 2, **MUTE), Kind.SLOW),
        (signs(5, silence_s=IDLE_S, **MUTE), Kind.HUNG),
        # In its work.
        (signs(QUIET_S - 1), Kind.WORKING),
        (signs(QUIET_S), Kind.SLOW),
        (signs(FIRST_S * 2), Kind.SLOW),
        (signs(IDLE_S - 1), Kind.SLOW),
        (signs(IDLE_S), Kind.HUNG),
        # The stream has stopped, but the transcript grows, or somebody computes.
        (signs(5, silence_s=IDLE_S * 3), Kind.SLOW),
        # A tool in flight, within its own timeout: a long test run that says nothing at all.
        (signs(590, tool_s=590.0, **BASH), Kind.IN_TOOL),
        (signs(1799, tool="Bash", tool_s=1799.0, tool_timeout_s=1800.0), Kind.IN_TOOL),
        (signs(IDLE_S, tool_s=600 + TOOL_SLACK_S - 1, **BASH), Kind.IN_TOOL),
        # Beyond it: the client should have ended it.
        (signs(IDLE_S, tool_s=600 + TOOL_SLACK_S, **BASH), Kind.HUNG),
        (signs(IDLE_S - 1, tool_s=5000.0, **BASH), Kind.IN_TOOL),
        # One that has no timeout of its own.
        (signs(IDLE_S - 1, tool="WebFetch", tool_s=800.0), Kind.IN_TOOL),
        (signs(IDLE_S, tool="WebFetch", tool_s=900.0), Kind.HUNG),
        # A limit, with its delay said.
        (signs(1000, retry_delay_s=3600.0), Kind.WAITING),
        (signs(3599, retry_delay_s=3600.0), Kind.WAITING),
        (signs(3600 + IDLE_S - 1, retry_delay_s=3600.0), Kind.SLOW),
        (signs(3600 + IDLE_S, retry_delay_s=3600.0), Kind.HUNG),
        # The context is compacted: one long request.
        (signs(400, is_compacting=True), Kind.COMPACTING),
        (signs(IDLE_S, is_compacting=True), Kind.HUNG),
    ],
)
def test_a_child_is_taken_for_what_it_is(seen: Signs, kind: Kind) -> None:
    assert judge(seen, first_event_s=FIRST_S, idle_s=IDLE_S) is kind


@pytest.mark.parametrize("seen", [signs(1e6), signs(1e6, **MUTE)])
def test_a_deadline_of_nought_is_none(seen: Signs) -> None:
    assert judge(seen, first_event_s=0, idle_s=0) is not Kind.HUNG


def test_the_idle_deadline_is_beyond_what_the_client_bounds_itself() -> None:
    api_timeout_s = 600  # API_TIMEOUT_MS, the client's default
    assert api_timeout_s * 1.5 <= IDLE_S
    assert int(HEADLESS["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"]) / 1000 < IDLE_S
    assert FIRST_S >= 180  # 75 s where the API cannot be reached, 30 s for each MCP server
    # Bash may run longer; it is held to its own timeout, the longest of which counts as tool time.
    longest_s = int(HEADLESS["BASH_MAX_TIMEOUT_MS"]) / 1000
    seen = signs(longest_s, tool="Bash", tool_s=longest_s, tool_timeout_s=longest_s)
    assert judge(seen, first_event_s=FIRST_S, idle_s=IDLE_S) is Kind.IN_TOOL


class Watched:
    """A vigil at a clock of its own, looked at every ten seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.cpu_s = 50.0
        self.stderr_bytes = 7
        self.transcript_bytes = 100
        self.vigil = Vigil(self.now)

    def says(self, told: Told = Told()) -> None:  # noqa: B008
        self.vigil.heard(self.now, told)

    def passes(self, seconds: float, *, cpu_share: float = 0.0, **growing: int) -> Signs:
        for _ in range(int(seconds / 10)):
            self.now += 10
            self.cpu_s += cpu_share * 10
            for name, bytes_more in growing.items():
                setattr(self, name, getattr(self, name) + bytes_more)
            self.vigil.looked(
                self.now,
                cpu_s=self.cpu_s,
                stderr_bytes=self.stderr_bytes,
                transcript_bytes=self.transcript_bytes,
            )
        return self.vigil.signs(self.now)


def test_nothing_moving_is_stillness() -> None:
    child = Watched()
    child.says()
    seen = child.passes(900, cpu_share=0.002)  # what an idle client uses
    assert (seen.silence_s, seen.still_s) == (900, 900)
    assert judge(seen, first_event_s=FIRST_S, idle_s=IDLE_S) is Kind.HUNG
    assert seen.cpu_s == pytest.approx(0.02)
    assert seen.look_s == 10


@pytest.mark.parametrize(
    "movement", [{"cpu_share": 0.014}, {"transcript_bytes": 1}, {"stderr_bytes": 1}]
)
def test_whatever_moves_is_a_sign_of_life(movement: dict[str, Any]) -> None:
    child = Watched()
    child.says()
    assert child.passes(3600, **movement).still_s == 0
    assert child.passes(600).still_s == 600
    # Standard error is a voice too; the others are not heard.
    assert child.vigil.signs(child.now).silence_s == (600 if "stderr_bytes" in movement else 4200)


def test_a_fall_of_the_figure_is_no_movement() -> None:
    child = Watched()
    child.says()
    child.passes(100)
    child.cpu_s = 1.0  # a process ended that nobody collects
    assert child.passes(100).still_s == 200


def test_of_several_tools_the_one_with_the_most_time_left_counts() -> None:
    child = Watched()
    bash, web = Tool(name="Bash", timeout_s=600.0), Tool(name="WebFetch")
    child.says(Told(tools={"a": bash}))
    child.passes(100)
    child.says(Told(tools={"a": bash, "b": web}))
    seen = child.passes(400)
    assert (seen.tool, seen.tool_s, seen.tool_timeout_s) == ("Bash", 500, 600)
    child.says(Told(tools={"b": web, "c": bash}))
    seen = child.passes(100)
    assert (seen.tool, seen.tool_s) == ("Bash", 100)
    child.says(Told(tools={"b": web}))
    seen = child.passes(100)
    assert (seen.tool, seen.tool_s, seen.tool_timeout_s) == ("WebFetch", 600, None)


def test_time_that_nobody_watched_does_not_count() -> None:
    child = Watched()
    child.says()
    child.passes(100)
    child.now += 8 * 3600
    child.vigil.missed(8 * 3600)
    assert child.passes(100).still_s == 200


def test_a_hang_is_told_in_one_line() -> None:
    assert sentence(signs(180, **MUTE)) == "it hung: not a word in the 5000 s since its start"
    told = sentence(signs(900, tool_s=700.0, **BASH))
    assert told.startswith("it hung: nothing on its streams for 900 s, and no CPU used")
    assert told.endswith("while it ran Bash (700 s)")
    assert "compacted" in sentence(signs(900, is_compacting=True))
    assert "to wait 60 s" in sentence(signs(960, retry_delay_s=60.0))


def test_nought_is_evidence_too() -> None:
    shown = signs(900.12345).shown()
    assert (shown["still_s"], shown["cpu_s"], shown["has_spoken"]) == (900.123, 0.0, True)
    assert "tool_timeout_s" not in shown


# -- what the client's stream says of it ----------------------------------------------------


def told(*events: dict[str, Any], env: dict[str, str] | None = None) -> Told:
    reader = ClaudeReader(env=HEADLESS if env is None else env)
    for event in events:
        reader.feed(msgspec.json.encode(event) + b"\n")
    return reader.doing.told()


def use(tool_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": arguments}
    return {"type": "assistant", "message": {"model": "claude-x", "content": [block]}}


def answer(tool_id: str) -> dict[str, Any]:
    return {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": tool_id}]},
    }


def system(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


@pytest.mark.parametrize(
    ("event", "env", "timeout_s"),
    [
        (use("t", "Bash", command="x"), None, 600.0),
        (use("t", "Bash", command="x", timeout=5000), None, 5.0),
        (use("t", "Bash", command="x", timeout=90_000_000), None, 1800.0),
        (use("t", "Bash", command="x", timeout="soon"), None, 600.0),
        (use("t", "Bash", command="x"), {}, 120.0),
        (use("t", "Bash", command="x", timeout=90_000_000), {}, 600.0),
        (use("t", "Bash", command="x"), {"BASH_DEFAULT_TIMEOUT_MS": "7_0"}, 120.0),
        (use("t", "Bash", command="x"), {"BASH_DEFAULT_TIMEOUT_MS": "900000"}, 900.0),
        (use("t", "mcp__build__run"), {"MCP_TOOL_TIMEOUT": "7200000"}, 7200.0),
        (use("t", "mcp__build__run"), {}, None),
        (use("t", "TaskOutput", timeout=60_000), None, 60.0),
        (use("t", "Agent", prompt="x"), None, None),
    ],
)
def test_a_tool_has_its_own_time(
    event: dict[str, Any], env: dict[str, str] | None, timeout_s: float | None
) -> None:
    (tool,) = told(event, env=env).tools.values()
    assert tool.timeout_s == timeout_s


def test_a_tool_is_in_flight_until_it_is_answered_or_the_turn_ends() -> None:
    assert list(told(use("a", "Bash"), use("b", "Read"), answer("a")).tools) == ["b"]
    assert told(use("a", "Bash"), {"type": "result"}).tools == {}
    assert told(use("a", "Bash"), system("init")).tools == {}


def test_the_tools_kept_are_bounded() -> None:
    assert len(told(*(use(f"t{n}", "Bash") for n in range(300))).tools) == 256


def test_waiting_and_compacting_last_until_there_is_news() -> None:
    retry = system("api_retry", retry_delay_ms=90_500)
    assert told(retry).retry_delay_s == 90.5
    assert told(retry, {"type": "keep_alive"}).retry_delay_s == 90.5
    assert told(retry, use("a", "Read")).retry_delay_s == 0
    assert told(system("api_retry", retry_delay_ms=None)).retry_delay_s == 0
    compacting = system("status", status="compacting")
    assert told(compacting).is_compacting
    assert not told(compacting, system("compact_boundary")).is_compacting
    assert not told(compacting, system("status", status=None)).is_compacting
    assert not told(compacting, answer("a")).is_compacting


@pytest.mark.parametrize("content", [None, "text", [None, 1, "x"], [{"type": "tool_use"}]])
def test_nothing_on_the_stream_breaks_it(content: Any) -> None:
    told({"type": "assistant", "message": {"content": content}}, {"type": ["odd"]}, {"type": None})
    told({"type": "user", "message": content}, {"type": "system", "subtype": {"a": 1}})


# -- and what it amounts to ------------------------------------------------------------------

HUNG = ChildExit(reason="hung", error="it hung: so it did")
ABORTED = {
    "type": "result",
    "subtype": "error_during_execution",
    "is_error": True,
    "num_turns": 2,
    "errors": ["[ede_diagnostic] result_type=user"],
}
DONE = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "ok"}


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([], Cause.CRASH),
        ([system("init"), use("a", "Bash")], Cause.CRASH),
        # What the client says when it is interrupted is not what was wrong with it.
        ([use("a", "Bash"), ABORTED | {"terminal_reason": "aborted_tools"}], Cause.CRASH),
        ([use("a", "Bash"), ABORTED], Cause.CRASH),
        # It had said its last word: that one stands.
        ([use("a", "Bash"), answer("a"), DONE], None),
        ([use("a", "Bash"), DONE | {"is_error": True, "api_error_status": 401}], Cause.AUTH),
    ],
)
def test_a_hang_is_a_crash_unless_the_last_word_was_said(
    events: list[dict[str, Any]], cause: Cause | None
) -> None:
    reader = ClaudeReader()
    for event in events:
        reader.feed(msgspec.json.encode(event) + b"\n")
    ended = Ended(seen=reader.seen, exit=HUNG, stderr_tail="", schema=None, again=False, now=0.0)
    verdict = classify(ended)
    assert isinstance(verdict, Verdict)
    assert verdict.cause is cause
    assert (verdict.error == HUNG.error) == (cause is Cause.CRASH)
