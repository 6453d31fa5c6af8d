"""What each thing the client can say about a failure means: tables, and nothing else.

Keys are the client's own enumerations (wire contract of 2.1.332) and the beginnings of its
messages.  What is not in a table falls through to the next one in classify.py.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from orchestrator.core.model import Cause, ResultStatus

STATUS_OF: Mapping[Cause, ResultStatus] = {
    Cause.TIMEOUT: ResultStatus.TIMEOUT,
    Cause.LIMIT: ResultStatus.RATE_LIMITED,
    Cause.OUTAGE: ResultStatus.PROVIDER_UNAVAILABLE,
    Cause.AUTH: ResultStatus.PROVIDER_UNAVAILABLE,
    Cause.BILLING: ResultStatus.PROVIDER_UNAVAILABLE,
    Cause.CRASH: ResultStatus.INTERRUPTED,
    Cause.SESSION_LOST: ResultStatus.INTERRUPTED,
    Cause.INTERRUPTED: ResultStatus.INTERRUPTED,
}
"""FAILURE for every other cause."""


class Means(NamedTuple):
    cause: Cause
    what: str
    """What happened, in a few words; the client's own follow."""
    remedy: str = ""
    session_lost: bool = False


LOGIN = "log in with `claude /login`, or set agent.oauth_token_file or CLAUDE_CODE_OAUTH_TOKEN"
_OPERATOR = "mend it where `claude doctor` says"
_ACCOUNT = "the account's administrator has to allow it"
_UPDATE = "install client 2.1.332 or newer"

_auth = Means(Cause.AUTH, "the client is not logged in", LOGIN)
_account = Means(Cause.AUTH, "the account may not use the client", _ACCOUNT)
_billing = Means(Cause.BILLING, "the account cannot pay", "add credit to it, then `unpause`")
_outage = Means(Cause.OUTAGE, "the API is not available")
_throttled = Means(Cause.OUTAGE, "the API limits the rate of requests")
_no_model = Means(
    Cause.MISCONFIGURED, "the model is not available", "name another under agent.models"
)
_full = Means(Cause.SESSION_LOST, "the session's context is full", session_lost=True)
_refused = Means(Cause.SESSION_LOST, "the API refused the session's history", session_lost=True)
_interrupted = Means(Cause.INTERRUPTED, "interrupted in the middle of its work")
_work = Means(Cause.WORK_ERROR, "the client gave up")
_hooks = Means(Cause.MISCONFIGURED, "a hook of the account's policy stopped it", _OPERATOR)
_machine = Means(Cause.INFRASTRUCTURE, "the machine did not let the client start")
_setup = Means(Cause.MISCONFIGURED, "the client refused to start", _OPERATOR)
_old = Means(Cause.MISCONFIGURED, "the client does not know an option that is needed", _UPDATE)
_root = Means(
    Cause.MISCONFIGURED,
    "the client does not bypass permissions as root",
    'run as another user, or set IS_SANDBOX = "1" under agent.env in a sandbox',
)
_unstructured = Means(Cause.INVALID_OUTPUT, "it gave no output that fits the schema")
_budget = Means(Cause.BUDGET, "it reached the budget reserved for it")

STARTUP: Mapping[str, Means] = {
    "remote_settings_required_unavailable": _outage,
    "org_config_required_unavailable": _outage,
    "worktree_unverified": _outage,
    "session_held_by_background": Means(Cause.OUTAGE, "another process holds the session"),
    "temp_dir_unusable": _machine,
    "cwd_unavailable": _machine,
    "worktree_resume_refused": Means(
        Cause.SESSION_LOST, "the session belongs to another worktree", session_lost=True
    ),
    "bypass_root": _root,
    "cli_version_too_old": _old,
    "gateway_signin_required": _auth,
    "gateway_access_denied": _account,
    "provider_not_allowed": _account,
    "org_pin_api_key_conflict": _account,
    "org_pin_mismatch": _account,
    "org_verify_failed": _account,
}
"""``startup_failure_reason``; _setup for every other."""
STARTUP_OTHERWISE = _setup

API_STATUS: Mapping[int, Means] = {401: _auth, 402: _billing, 404: _no_model, 408: _outage}
"""``api_error_status`` that means one thing; 5xx is an outage."""

API_STATUS_AFTER_TEXT: Mapping[int, Means] = {
    400: _refused,
    403: _account,
    413: _full,
    429: _throttled,
}
"""Those where the text may say more."""

MESSAGE_ERROR: Mapping[str, Means] = {
    "authentication_failed": _auth,
    "oauth_org_not_allowed": _account,
    "account_on_hold": _account,
    "verification_required": _account,
    "cloud_credential_error": _auth,
    "billing_error": _billing,
    "overloaded": _outage,
    "model_not_found": _no_model,
}
"""``error`` of the last assistant line, that means one thing."""

MESSAGE_ERROR_AFTER_TEXT: Mapping[str, Means] = {
    "rate_limit": _throttled,
    "server_error": _outage,
    "invalid_request": _refused,
    "max_output_tokens": _work,
}

TERMINAL: Mapping[str, Means] = {
    "prompt_too_long": _full,
    "blocking_limit": _full,
    "rapid_refill_breaker": _full,
    "image_error": _refused,
    "aborted_streaming": _interrupted,
    "aborted_tools": _interrupted,
    "hook_stopped": _hooks,
    "stop_hook_prevented": _hooks,
    "max_turns": _work,
    "budget_exhausted": _budget,
    "structured_output_retry_exhausted": _unstructured,
    "turn_setup_failed": _machine,
}
"""``terminal_reason``."""

SUBTYPE: Mapping[str, Means] = {
    "error_max_turns": _work,
    "error_max_budget_usd": _budget,
    "error_max_structured_output_retries": _unstructured,
}

TEXT: tuple[tuple[re.Pattern[str], Means], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), means)
    for pattern, means in (
        (r"not logged in|invalid api key|please run /login|failed to authenticate", _auth),
        (r"oauth (token|session|access)", _auth),
        (r"credit balance is too low", _billing),
        (r"prompt is too long|input length and .* exceed|autocompact is thrashing", _full),
        (r"tool_use_id|tool_use.*tool_result|tool_result.*tool_use", _refused),
        (r"temporarily limiting requests|request rejected \(429\)", _throttled),
        (r"overloaded|connection (error|refused|reset|closed)|timed? ?out|fetch failed", _outage),
        (r"econn|enotfound|eai_again|unable to connect|mid-response", _outage),
        (r"cannot be used with root", _root),
    )
)
"""Of the final result of a failed run, where nothing more exact was said."""

STDERR: tuple[tuple[re.Pattern[str], Means], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), means)
    for pattern, means in (
        (r"unknown option '--|unknown command", _old),
        (r"cannot be used with root", _root),
        (r"option '--permission-mode.*is invalid", _setup._replace(
            remedy="correct agent.permission_mode in the project file")),
        (r"option '--.*is invalid", _old),
        (r"not a? ?valid json", _old),
        (r"not logged in|please run /login", _auth),
        (r"enospc|no space left|enomem|out of memory|cannot allocate", _machine),
    )
)  # fmt: skip
"""Of a client that ended without a word on its stream."""
STDERR_OTHERWISE = _setup

SESSION_GONE = Means(
    Cause.SESSION_LOST, "the session can be neither begun nor resumed", session_lost=True
)
SESSION_UNKNOWN = re.compile(r"no conversation found with session id", re.IGNORECASE)
SESSION_IN_USE = re.compile(r"session id .{1,100} is already in use", re.IGNORECASE)
