"""The lane ``headless:claude``: how a model stage is started, read and judged."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from adapters.execution.claude import limits, session
from adapters.execution.claude.billing import billing_of
from adapters.execution.claude.classify import Ended, Verdict, classify
from adapters.execution.claude.command import argv_of
from adapters.execution.claude.cost import asked_at_least
from adapters.execution.claude.environment import child_environment, read_oauth_token
from adapters.execution.claude.stream import TEXT_CHARS_MAX, ClaudeReader, Seen
from adapters.execution.claude.wire import mapping, one_line
from adapters.execution.lanes import Command, Reader, StartAgain
from adapters.execution.stall import Told
from orchestrator.core.model import (
    CallCost,
    Cause,
    ChildExit,
    Ending,
    SessionId,
    Window,
    WorkItem,
    WorkItemId,
)
from orchestrator.core.settings import Project

WARNINGS_CHARS_MAX = 300
_WARNS = re.compile(r"unrecognized_model|\bdeprecated\b|auto-updated", re.IGNORECASE)
_FAMILY = re.compile(r"(?:^|-)(opus|sonnet|haiku|fable)(?:-|$)")


class ClaudeLane:
    def __init__(
        self,
        project: Project,
        environ: Mapping[str, str],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``environ`` is the driver's.  Raises EnvironmentFault for a bad token file."""
        self._agent = project.agent
        self._environ = dict(environ)
        self._oauth_token = read_oauth_token(project)
        self._now = now
        self._resumed: dict[WorkItemId, bool] = {}
        """How the dispatches that are out were begun."""

    def environment(self, work: WorkItem) -> dict[str, str]:
        return child_environment(
            self._agent, self._environ, values=work.env, oauth_token=self._oauth_token
        )

    def command(self, work: WorkItem, prompt_file: Path, *, again: bool) -> Command:
        """Resumed where there is something to resume; ``again``: the other way round."""
        env = self.environment(work)
        resumable = work.session_id is not None and session.is_resumable(env, work.session_id)
        # What the first start was refused for may have changed the evidence, too.
        resume = not self._resumed.get(work.id, resumable) if again else resumable
        self._resumed[work.id] = resume
        return Command(
            argv=argv_of(work, self._agent, resume=resume),
            env=env,
            cwd=work.cwd,
            stdin=prompt_file,
        )

    def reader(self, work: WorkItem) -> ClaudeReader:
        env = self.environment(work)
        return ClaudeReader(billing=billing_of(self._agent, env), env=env)

    def told(self, reader: object) -> Told:
        return reader.doing.told() if isinstance(reader, ClaudeReader) else Told()

    def transcript_bytes(self, work: WorkItem) -> int:
        return session.transcript_bytes(self.environment(work), work.session_id)

    def conclude(
        self,
        work: WorkItem,
        reader: Reader,
        exit: ChildExit,  # noqa: A002
        stderr_tail: str,
        *,
        again: bool,
    ) -> Ending | StartAgain:
        seen = reader.seen if isinstance(reader, ClaudeReader) else Seen()
        env = self.environment(work)
        verdict = classify(
            Ended(
                seen=seen,
                exit=exit,
                stderr_tail=stderr_tail,
                schema=work.output_schema,
                again=again,
                now=self._now(),
            )
        )
        if isinstance(verdict, StartAgain):
            return verdict
        self._resumed.pop(work.id, None)
        ending = _ending(work, seen, verdict, env, exit)
        warns = _warnings(stderr_tail)
        if not warns:
            return ending
        evidence = {**ending.evidence, "client_warns": warns}
        return msgspec.structs.replace(ending, evidence=evidence)


def _ending(
    work: WorkItem, seen: Seen, verdict: Verdict, env: Mapping[str, str], exit_: ChildExit
) -> Ending:
    session_id = _session_id(work, seen, env)
    lost = verdict.session_lost or seen.writes_lost or _vanished(seen, session_id, env)
    return Ending(
        status=verdict.status,
        cause=verdict.cause,
        error=verdict.error,
        structured_output=verdict.structured_output,
        raw_output=_last_words(seen),
        session_id=session_id,
        cost=_cost(work, seen),
        windows=_windows(seen, verdict),
        resets_at=verdict.resets_at,
        evidence=_evidence(work, seen),
        exit=exit_,
        session_lost=lost,
    )


def _warnings(stderr_tail: str) -> str:
    """What the client says of a model that it does not know, or that will be gone."""
    lines = [line for line in stderr_tail.splitlines() if _WARNS.search(line)]
    return one_line("; ".join(dict.fromkeys(lines)), WARNINGS_CHARS_MAX)


def _windows(seen: Seen, verdict: Verdict) -> tuple[Window, ...]:
    """As the stream tells them.  A limit of one model may be told in words alone."""
    told = tuple(seen.windows.values())
    result = seen.result
    is_told = any(window.status == "rejected" for window in told)
    if verdict.cause is not Cause.LIMIT or is_told or result is None:
        return told
    name = limits.window_named(result.said)
    if not name:
        return told
    rejected = Window(name=name, utilization=1.0, resets_at=verdict.resets_at, status="rejected")
    return (*(window for window in told if window.name != name), rejected)


def _last_words(seen: Seen) -> str:
    """The model's.  What the client says of a failure is the error."""
    result = seen.result
    said = "" if result is None or result.is_error else result.text[:TEXT_CHARS_MAX]
    return said or seen.last_text


def _session_id(work: WorkItem, seen: Seen, env: Mapping[str, str]) -> SessionId | None:
    """Older clients change the id on a resume: then the one with a transcript counts."""
    reported = SessionId(seen.session_id) if seen.session_id else None
    if work.session_id is None or reported is None or reported == work.session_id:
        return work.session_id or reported
    return reported if session.is_resumable(env, reported) else work.session_id


def _vanished(seen: Seen, session_id: SessionId | None, env: Mapping[str, str]) -> bool:
    """It worked, and yet there is no transcript: the next stage must begin a session."""
    return bool(seen.replies) and not (session_id and session.transcripts(env, session_id))


def _cost(work: WorkItem, seen: Seen) -> CallCost | None:
    """A client that began has probably sent its prompt, unless the API is seen to refuse it."""
    asked = None
    if seen.started and not seen.api_retries:
        asked = asked_at_least(seen.model or work.model, len(work.prompt))
    before = mapping(work.inputs.get("session_before"))
    return seen.meter.call_cost(before, seen.version, asked)


def _evidence(work: WorkItem, seen: Seen) -> dict[str, Any]:
    """What is worth keeping of how it went; only what is not as usual, but for the client."""
    found: dict[str, Any] = {
        "client_version": seen.version,
        "model": seen.model,
        "denied_tools": list(seen.result.denied_tools) if seen.result else [],
        "terminal_reason": seen.result.terminal_reason if seen.result else "",
        "another_model": another_model(work.model, seen.answered_by),
        "api_retries": seen.api_retries,
        "using_overage": seen.using_overage,
        "unfinished_tools": sorted(set(seen.tools.values())),
        "background_tasks": len(seen.tasks),
        "subagents_lost": seen.subagents_lost,
        "login_ends_at": seen.login_ends_at,
        "unreadable_lines": seen.unreadable_lines,
        "oversize_lines": seen.oversize_lines,
        "torn": seen.is_torn,
    }
    if found["terminal_reason"] == "completed":
        del found["terminal_reason"]
    return {
        name: one_line(value, 100) if isinstance(value, str) else value
        for name, value in found.items()
        if value
    }


def another_model(asked: str, answered: str) -> str:
    """The model that answered, where it is certainly not the one that was asked for.

    An alias is known by its family; one that names several, or none, is not held to any.
    """
    if not answered:
        return ""
    asked = asked.lower().partition("[")[0]
    if asked.startswith("claude-"):
        return "" if answered.startswith(asked) else answered
    family = _FAMILY.search(asked)
    return answered if family is not None and family[1] not in answered else ""
