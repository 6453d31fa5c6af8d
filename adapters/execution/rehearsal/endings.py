"""What a result line says of how a call ended, and the exit status that goes with it."""

from typing import Any, NamedTuple

OUTPUT_TRIES_MAX = 5


class End(NamedTuple):
    verdict: dict[str, Any]
    status: int


def success(text: str, **more: Any) -> End:
    verdict = {
        "stop_reason": "tool_use" if more else "end_turn",
        "terminal_reason": "completed",
        "is_error": False,
        "subtype": "success",
        "api_error_status": None,
        "result": text,
        **more,
    }
    return End(verdict, 0)


def api_error(text: str, status: int | None, **more: Any) -> End:
    """A request failed for good: "success", and an error."""
    verdict = {
        "stop_reason": "stop_sequence",
        "terminal_reason": "api_error",
        "is_error": True,
        "subtype": "success",
        "api_error_status": status,
        **more,
        "result": text,
    }
    return End(verdict, 1)


def error(subtype: str, terminal_reason: str, *errors: str, status: int = 1) -> End:
    verdict = {
        "stop_reason": "tool_use",
        "terminal_reason": terminal_reason,
        "is_error": True,
        "subtype": subtype,
        "errors": list(errors),
    }
    return End(verdict, status)


def out_of_turns(limit: int) -> End:
    return error("error_max_turns", "max_turns", f"Reached maximum number of turns ({limit})")


def out_of_budget(limit_usd: float) -> End:
    said = f"Reached maximum budget (${limit_usd:g})"
    return error("error_max_budget_usd", "budget_exhausted", said)


def unstructured(wrong: str) -> End:
    return error(
        "error_max_structured_output_retries",
        "structured_output_retry_exhausted",
        f"Failed to provide valid structured output after {OUTPUT_TRIES_MAX} attempts"
        f" — last StructuredOutput error: Output does not match required schema: {wrong}",
    )


def interrupted(terminal_reason: str) -> End:
    """By SIGINT: an error, and exit status 0."""
    said = "[ede_diagnostic] result_type=user stop_reason=tool_use"
    return error("error_during_execution", terminal_reason, said, status=0)


def not_started(session_id: str, text: str, **more: Any) -> dict[str, Any]:
    """The whole line of a call that came to nothing before it began."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "modelUsage": {},
        "permission_denials": [],
        "errors": [text],
        "result_index": 0,
        **more,
    }
