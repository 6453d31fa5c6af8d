"""Every recorded ending of the real client, and what the driver makes of it."""

from typing import NamedTuple

import pytest

from adapters.execution.claude.classify import Verdict
from adapters.execution.lanes import StartAgain
from orchestrator.core.model import Cause, ResultStatus
from tests.unit.claude.recorded import NAMES, judged, recording, verdict

OUTPUT = {"ok": True, "summary": "did it"}
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "summary": {"type": "string"}},
    "required": ["ok", "summary"],
    "additionalProperties": False,
}


class Expected(NamedTuple):
    status: ResultStatus
    cause: Cause | None = None
    says: str = ""
    session_lost: bool = False


S, C = ResultStatus, Cause
EXPECTED = {
    "success-api-key": Expected(S.SUCCESS),
    "success-resumed": Expected(S.SUCCESS),
    "success-resumed-again": Expected(S.SUCCESS),
    "success-subscription": Expected(S.SUCCESS),
    "structured-output": Expected(S.SUCCESS),
    "structured-output-invalid": Expected(S.SCHEMA_VIOLATION, C.INVALID_OUTPUT, "schema"),
    "max-budget": Expected(S.FAILURE, C.BUDGET, "Reached maximum budget ($0.001)"),
    "max-turns": Expected(S.FAILURE, C.WORK_ERROR, "Reached maximum number of turns (1)"),
    "rate-limited-subscription": Expected(S.RATE_LIMITED, C.LIMIT, "You've hit your 5-hour limit"),
    "rate-limited-api-key": Expected(S.PROVIDER_UNAVAILABLE, C.OUTAGE, "rate of requests"),
    "overloaded": Expected(S.PROVIDER_UNAVAILABLE, C.OUTAGE, "529 Overloaded"),
    "api-unreachable": Expected(S.PROVIDER_UNAVAILABLE, C.OUTAGE, "Connection refused"),
    "auth-failed": Expected(S.PROVIDER_UNAVAILABLE, C.AUTH, "claude /login"),
    "not-logged-in": Expected(S.PROVIDER_UNAVAILABLE, C.AUTH, "claude /login"),
    "signal-INT": Expected(S.INTERRUPTED, C.CRASH, "interrupted"),
    "signal-TERM": Expected(S.INTERRUPTED, C.CRASH, "SIGTERM"),
    "signal-KILL": Expected(S.INTERRUPTED, C.CRASH, "SIGKILL"),
    "bad-session-id": Expected(S.FAILURE, C.MISCONFIGURED, "Must be a valid UUID"),
    "unknown-option": Expected(S.FAILURE, C.MISCONFIGURED, "2.1.332 or newer"),
}


def test_every_recording_is_judged() -> None:
    assert {*EXPECTED, "unknown-session"} == set(NAMES)


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_ending(name: str) -> None:
    recorded, expected = recording(name), EXPECTED[name]
    schema = SCHEMA if name.startswith("structured-output") else None
    found = verdict(recorded.stdout, recorded.exit, stderr=recorded.stderr, schema=schema)
    assert (found.status, found.cause) == (expected.status, expected.cause)
    assert expected.says in found.error
    assert "\n" not in found.error
    assert found.session_lost == expected.session_lost


def test_structured_output_is_kept() -> None:
    recorded = recording("structured-output")
    assert verdict(recorded.stdout, schema=SCHEMA).structured_output == OUTPUT


def test_limit_ends_when_the_event_says() -> None:
    recorded = recording("rate-limited-subscription")
    assert verdict(recorded.stdout, recorded.exit).resets_at == 1795971776


def test_unknown_session_is_started_again_once() -> None:
    recorded = recording("unknown-session")
    assert isinstance(judged(recorded.stdout, recorded.exit), StartAgain)
    assert isinstance(judged(b"", recorded.exit, stderr=recorded.stderr), StartAgain)
    second = judged(recorded.stdout, recorded.exit, again=True)
    assert isinstance(second, Verdict)
    assert second.cause is Cause.SESSION_LOST
    assert second.session_lost


def test_session_in_use_is_started_again_once() -> None:
    stderr = "Error: Session ID aaaaaaaa-0000-4000-8000-000000000001 is already in use.\n"
    code_1 = recording("bad-session-id").exit
    assert isinstance(judged(b"", code_1, stderr=stderr), StartAgain)
    assert verdict(b"", code_1, stderr=stderr, again=True).session_lost
