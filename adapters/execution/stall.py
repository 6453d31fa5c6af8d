"""Tell a child that hangs from one that is slow, by what can be seen of it.  Pure.

A hang is that nothing of a child has moved for longer than anything honest takes: no byte on
its two streams, no growth of its transcript, no CPU used by any process under it, while no tool
of it runs within its own time.  The two deadlines are settings of the run; 0 is never.

Invariant: what moves, or has a tool in flight within its timeout, is never called hung.  The one
exception is a child that has not said its first word by the longer of the two deadlines.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from orchestrator.core.model import Record

CPU_SHARE_MIN = 0.005
"""Of one core.  Measured on the client: 0.001 while it waits for an API that says nothing, 0.014
and more while an answer streams in, of which no line shows before the answer is whole."""
QUIET_S = 30.0
"""Silent for longer than this, a child is slow."""
TOOL_SLACK_S = 60.0
"""How long after a tool's own timeout the client may take to end it and say so."""


class Kind(StrEnum):
    WORKING = "working"
    SLOW = "slow"
    WAITING = "waiting for a limit"
    COMPACTING = "compacting"
    IN_TOOL = "running a tool"
    HUNG = "hung"


class Tool(Record, frozen=True, kw_only=True):
    name: str
    timeout_s: float | None = None
    """Its own, where it is known to have one."""


class Told(Record, frozen=True, kw_only=True):
    """What a child is about, by its own words."""

    tools: Mapping[str, Tool] = {}
    """In flight, by their id."""
    is_compacting: bool = False
    retry_delay_s: float = 0.0
    """It has said that it waits so long before it asks its API again."""


class Signs(Record, frozen=True, kw_only=True):
    """What is seen of a child, as the evidence of a stop keeps it."""

    since_start_s: float
    silence_s: float
    """Since the last byte on stdout or stderr."""
    still_s: float
    """Since the last sign of life of any kind: a byte, the transcript, CPU."""
    has_spoken: bool = True
    """There was a byte on stdout."""
    tool: str = ""
    """Of the tools in flight, the one that has the most time left."""
    tool_s: float = 0.0
    tool_timeout_s: float | None = None
    is_compacting: bool = False
    retry_delay_s: float = 0.0
    cpu_s: float = 0.0
    """Used by all its processes in the last look, which went over ``look_s``."""
    look_s: float = 0.0
    transcript_bytes: int = 0

    def shown(self) -> dict[str, Any]:
        """Every one of them, also what is as usual: nought is evidence here."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None
        }


def judge(signs: Signs, *, first_event_s: float, idle_s: float) -> Kind:
    if _is_hung(signs, first_event_s, idle_s):
        return Kind.HUNG
    if signs.silence_s < signs.retry_delay_s:
        return Kind.WAITING
    if signs.is_compacting:
        return Kind.COMPACTING
    if signs.tool:
        return Kind.IN_TOOL
    return Kind.SLOW if signs.silence_s >= QUIET_S else Kind.WORKING


def _is_hung(signs: Signs, first_event_s: float, idle_s: float) -> bool:
    if not signs.has_spoken:
        # Nothing it does before its first word takes so long, however busy it looks.
        is_mute = 0 < max(first_event_s, idle_s) <= signs.silence_s
        return first_event_s > 0 and (first_event_s <= signs.still_s or is_mute)
    timeout_s = signs.tool_timeout_s
    if timeout_s is not None and signs.tool_s < timeout_s + TOOL_SLACK_S:
        return False
    return idle_s > 0 and idle_s + signs.retry_delay_s <= signs.still_s


def sentence(signs: Signs) -> str:
    """For a person: what was seen of a child that hung."""
    if not signs.has_spoken:
        return f"it hung: not a word in the {signs.since_start_s:.0f} s since its start"
    doing = ""
    if signs.tool:
        doing = f" while it ran {signs.tool} ({signs.tool_s:.0f} s)"
    elif signs.is_compacting:
        doing = " while it compacted its context"
    elif signs.retry_delay_s:
        doing = f" after it had said to wait {signs.retry_delay_s:.0f} s for its API"
    return (
        f"it hung: nothing on its streams for {signs.silence_s:.0f} s, and no CPU used and no"
        f" transcript written for {signs.still_s:.0f} s{doing}"
    )


class Vigil:
    """Gathers the signs.  ``now`` is monotonic and does not count the time of a suspend.

    Times before it began are not known to it, so that a driver that has just been started again
    calls nobody hung whom it has not watched for long enough itself.
    """

    def __init__(self, now: float, *, since_start_s: float = 0.0) -> None:
        self._began = now - since_start_s
        self._heard_at = now
        self._moved_at = now
        self._looked_at: float | None = None
        self._look_s = 0.0
        self._cpu_s = 0.0
        self._cpu_used_s = 0.0
        self._stderr_bytes = 0
        self._transcript_bytes = 0
        self._has_spoken = False
        self._told = Told()
        self._tools_began: dict[str, float] = {}

    @property
    def has_spoken(self) -> bool:
        return self._has_spoken

    def silence_s(self, now: float) -> float:
        return now - self._heard_at

    def heard(self, now: float, told: Told) -> None:
        """Bytes came on stdout; ``told`` is what they amount to by now."""
        self._has_spoken = True
        self._heard_at = self._moved_at = now
        self._told = told
        self._tools_began = {name: self._tools_began.get(name, now) for name in told.tools}

    def missed(self, seconds: float) -> None:
        """Nobody watched for so long: the driver was stopped itself, or the machine was."""
        self._heard_at += seconds
        self._moved_at += seconds

    def looked(self, now: float, *, cpu_s: float, stderr_bytes: int, transcript_bytes: int) -> None:
        """``cpu_s``: what all its processes have used since they began."""
        if self._looked_at is not None:
            self._look_s = max(now - self._looked_at, 1e-9)
            self._cpu_used_s = max(cpu_s - self._cpu_s, 0.0)
            if stderr_bytes != self._stderr_bytes:
                self._heard_at = self._moved_at = now
            if (
                transcript_bytes != self._transcript_bytes
                or self._cpu_used_s / self._look_s >= CPU_SHARE_MIN
            ):
                self._moved_at = now
        self._looked_at, self._cpu_s = now, cpu_s
        self._stderr_bytes, self._transcript_bytes = stderr_bytes, transcript_bytes

    def signs(self, now: float) -> Signs:
        tool_id, tool = self._longest(now)
        return Signs(
            since_start_s=now - self._began,
            silence_s=now - self._heard_at,
            still_s=now - self._moved_at,
            has_spoken=self._has_spoken,
            tool="" if tool is None else tool.name,
            tool_s=0.0 if tool is None else now - self._tools_began[tool_id],
            tool_timeout_s=None if tool is None else tool.timeout_s,
            is_compacting=self._told.is_compacting,
            retry_delay_s=self._told.retry_delay_s,
            cpu_s=self._cpu_used_s,
            look_s=self._look_s,
            transcript_bytes=self._transcript_bytes,
        )

    def _longest(self, now: float) -> tuple[str, Tool | None]:
        """The tool in flight that may run on for longest; one without a timeout may not."""
        found: tuple[float, str, Tool | None] = (-1.0, "", None)
        for tool_id, tool in self._told.tools.items():
            until = self._tools_began[tool_id] + (tool.timeout_s or 0.0)
            if until - now > found[0] or found[2] is None:
                found = (until - now, tool_id, tool)
        return found[1], found[2]
