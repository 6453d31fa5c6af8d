"""What a scripted model can answer: a turn, a failure, or a broken connection.

Values only, but for Gate, which holds a reply back until a test lets it go.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one turn: what the client's cost is computed from."""

    input_tokens: int = 100
    output_tokens: int = 50
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    name: str
    input: Mapping[str, Any]


class Gate:
    """Holds replies until it is opened, so that a test can act at a known moment.

    Closing it again is not possible.  A server that closes opens every gate it waits on.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._arrivals = threading.Semaphore(0)

    def wait_for_arrival(self, timeout_s: float = 30.0) -> None:
        """Return once one more request has come to the gate; raise TimeoutError otherwise."""
        if not self._arrivals.acquire(timeout=timeout_s):
            raise TimeoutError(f"no request came to the gate within {timeout_s} s")

    def open(self) -> None:
        self._opened.set()

    def hold(self, poll_s: float, abandoned: threading.Event) -> None:
        """Wait until it is opened, or the server that asks has closed."""
        self._arrivals.release()
        while not self._opened.wait(poll_s):
            if abandoned.is_set():
                return


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant message, streamed.  With a tool use in it, the client runs the tool."""

    blocks: tuple[Text | ToolUse, ...]
    usage: Usage = Usage()
    delay_s: float = 0.0
    gate: Gate | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop_reason(self) -> str:
        uses_tool = any(isinstance(block, ToolUse) for block in self.blocks)
        return "tool_use" if uses_tool else "end_turn"


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error, in the API's form."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    gate: Gate | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed, before the answer or in the middle of a message."""

    mid_message: bool = False
    gate: Gate | None = None


Reply = Turn | Failure | Drop


def overloaded() -> Failure:
    return Failure(529, "overloaded_error", "Overloaded")


def unauthorized() -> Failure:
    return Failure(401, "authentication_error", "invalid x-api-key")


def server_error() -> Failure:
    return Failure(500, "api_error", "Internal server error")


def throttled() -> Failure:
    """A 429 that is not a usage limit: too many requests at once."""
    return Failure(429, "rate_limit_error", "Number of requests has exceeded your rate limit")


def no_credit() -> Failure:
    message = (
        "Your credit balance is too low to access the Anthropic API. "
        "Please go to Plans & Billing to upgrade or purchase credits."
    )
    return Failure(400, "invalid_request_error", message)


def windows(
    *,
    five_hour: float,
    seven_day: float = 0.1,
    resets_at: float,
    status: str = "allowed",
    claim: str = "five_hour",
) -> dict[str, str]:
    """The headers by which a subscription's usage windows are said.

    ``five_hour`` and ``seven_day`` are shares used, 0 to 1; ``resets_at`` is epoch seconds.
    """
    prefix = "anthropic-ratelimit-unified"
    reset = str(int(resets_at))
    return {
        f"{prefix}-status": status,
        f"{prefix}-reset": reset,
        f"{prefix}-representative-claim": claim,
        f"{prefix}-5h-status": status if claim == "five_hour" else "allowed",
        f"{prefix}-5h-utilization": f"{five_hour}",
        f"{prefix}-5h-reset": reset,
        f"{prefix}-7d-status": status if claim == "seven_day" else "allowed",
        f"{prefix}-7d-utilization": f"{seven_day}",
        f"{prefix}-7d-reset": reset,
    }


def limit_reached(*, resets_in_s: float, claim: str = "five_hour") -> Failure:
    """A subscription's window is full: the client does not retry, and says when it resets."""
    resets_at = time.time() + resets_in_s
    return Failure(
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
        headers=windows(
            five_hour=1.0 if claim == "five_hour" else 0.5,
            seven_day=1.0 if claim == "seven_day" else 0.5,
            resets_at=resets_at,
            status="rejected",
            claim=claim,
        ),
    )
