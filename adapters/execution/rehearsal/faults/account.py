"""What the API and the account behind it answer in place of a model's reply."""

import time
from typing import Any

from adapters.execution.rehearsal.conversation import Conversation, Moment, Params
from adapters.execution.rehearsal.faults.kind import registry

KINDS, _at = registry()


@_at(Moment.BEGIN)
def rate_limited(play: Conversation, params: Params) -> None:
    """The subscription's `window` (five_hour) is used up; it resets in `resets_in_s` (3600).
    `says`: other words for it, {epoch} and {at} filled in; `event` = false: words alone."""
    resets_at = int(params.get("resets_at", time.time() + params.get("resets_in_s", 3600)))
    if params.get("event", True):
        play.stream.rate_limit_event(
            {
                "status": "rejected",
                "resetsAt": resets_at,
                "rateLimitType": params.get("window", "five_hour"),
                "isUsingOverage": False,
            }
        )
    at = time.strftime("%I:%M%p", time.gmtime(resets_at)).lstrip("0").lower()
    says = params.get("says", "You've hit your 5-hour limit · resets {at} (UTC)")
    play.fail_request(
        says.replace("{epoch}", str(resets_at)).replace("{at}", at),
        "rate_limit",
        429,
        api_error_type="rate_limit_error",
        api_error="usage_limit_reached",
    )


@_at(Moment.BEGIN)
def overage(play: Conversation, params: Params) -> None:
    """Works, on paid credits: the window is used up and the account goes on all the same."""
    play.stream.rate_limit_event(
        {
            "status": "allowed",
            "resetsAt": int(time.time() + params.get("resets_in_s", 3600)),
            "rateLimitType": "five_hour",
            "overageStatus": "allowed",
            "isUsingOverage": True,
        }
    )


@_at(Moment.BEGIN)
def throttled(play: Conversation, params: Params) -> None:
    """429 of an API key: no window, no time of reset."""
    play.fail_request(
        "API Error: Request rejected (429) · This request would exceed your account's rate limit."
        " Please try again later.",
        "rate_limit",
        429,
        api_error_type="rate_limit_error",
    )


@_at(Moment.BEGIN)
def overloaded(play: Conversation, params: Params) -> None:
    """529 after `retries` (2) retries of `delay_s` (0.05)."""
    _retries(play, params, 529)
    play.fail_request(
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in"
        " a moment.",
        "server_error",
        529,
        api_error_type="overloaded_error",
    )


@_at(Moment.BEGIN)
def unreachable(play: Conversation, params: Params) -> None:
    """The connection is refused, after `retries` (2) retries of `delay_s` (0.05)."""
    _retries(play, params, None)
    play.fail_request(
        "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        "server_error",
        None,
        api_error="connection_failed",
    )


@_at(Moment.BEGIN)
def retries(play: Conversation, params: Params) -> None:
    """`retries` (2) retries of `delay_s` (0.05), and then it works."""
    _retries(play, params, 529)


@_at(Moment.WORK)
def cut_mid_response(play: Conversation, params: Params) -> None:
    """The API breaks off in the middle of an answer."""
    play.fail_request(
        "API Error: Connection closed mid-response. The response above may be incomplete.",
        "unknown",
        None,
    )


@_at(Moment.BEGIN)
def new_words(play: Conversation, params: Params) -> None:
    """An error in words (`says`) that no driver knows, before any work."""
    play.fail_request(params.get("says", "Come back when the moon is full."), "unknown", None)


@_at(Moment.BEGIN)
def auth_failed(play: Conversation, params: Params) -> None:
    """401: the key is not valid."""
    play.fail_request(
        "Invalid API key · Fix external API key",
        "authentication_failed",
        401,
        api_error_type="authentication_error",
    )


@_at(Moment.BEGIN)
def login_expired(play: Conversation, params: Params) -> None:
    """401: the login has run out, or another process has just refreshed it."""
    play.fail_request(
        "Failed to authenticate: OAuth session expired and could not be refreshed",
        "authentication_failed",
        401,
    )


@_at(Moment.BEGIN)
def not_logged_in(play: Conversation, params: Params) -> None:
    """No login and no key."""
    play.fail_request("Not logged in · Please run /login", "authentication_failed", None)


@_at(Moment.BEGIN)
def account_refused(play: Conversation, params: Params) -> None:
    """The account may not: `error` (oauth_org_not_allowed) is the client's word for why."""
    error = params.get("error", "oauth_org_not_allowed")
    play.fail_request("API Error: 403 your organization does not allow it", error, 403)


@_at(Moment.BEGIN)
def no_credit(play: Conversation, params: Params) -> None:
    """Billing: the balance is too low."""
    play.fail_request(
        "Credit balance is too low",
        "billing_error",
        400,
        api_error_type="invalid_request_error",
    )


@_at(Moment.BEGIN)
def no_such_model(play: Conversation, params: Params) -> None:
    """The model is retired, or was never there."""
    play.fail_request("API Error: 404 model: not found", "model_not_found", 404)


def _retries(play: Conversation, params: dict[str, Any], status: int | None) -> None:
    count = params.get("retries", 2)
    for attempt in range(1, count + 1):
        delay_s = params.get("delay_s", 0.05)
        play.stream.api_retry(attempt, count, delay_s, status)
        time.sleep(delay_s)
