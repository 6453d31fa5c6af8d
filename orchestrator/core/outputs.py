"""What each model stage must answer with, and what its answer has to hold to count.

A schema violation is the lane's to find; judge() looks at what a valid answer says
and at what the worktree shows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.core.model import Cause, Ending, ResultStatus, Stage

_STRINGS = {"type": "array", "items": {"type": "string"}}


def _object(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


OUTPUT_SCHEMAS: Mapping[Stage, dict[str, Any]] = {
    Stage.SCOPE: _object(
        ("feasible", "plan", "risks"),
        feasible={"type": "boolean"},
        plan=_STRINGS,
        risks=_STRINGS,
        blocked_reason={"type": "string"},
    ),
    Stage.IMPLEMENT: _object(
        ("summary", "files_changed", "notes"),
        summary={"type": "string"},
        files_changed=_STRINGS,
        notes={"type": "string"},
    ),
    Stage.REVIEW: _object(
        ("approved", "issues", "non_blocking"),
        approved={"type": "boolean"},
        issues={
            "type": "array",
            "items": _object(
                ("severity", "file", "description"),
                severity={"type": "string", "enum": ["blocker", "major", "minor"]},
                file={"type": "string"},
                line={"type": "integer"},
                description={"type": "string"},
            ),
        },
        non_blocking=_STRINGS,
        improvement={"type": "string"},
    ),
}


def judge(
    stage: Stage, ending: Ending, *, tree_before: str, tree: str, conflicts: Sequence[str]
) -> Ending:
    """The ending as its evidence has it.  Trees are git tree hashes; "" where not looked at."""
    if ending.status is not ResultStatus.SUCCESS:
        return ending
    output = ending.structured_output
    if not isinstance(output, dict):
        if stage in OUTPUT_SCHEMAS:
            return _failed(ending, Cause.INVALID_OUTPUT, f"{stage} gave no structured output")
        output = {}
    match stage:
        case Stage.SCOPE if tree != tree_before:
            return _failed(ending, Cause.WROTE_FILES, "scope changed files; it may only read")
        case Stage.SCOPE if not output.get("feasible"):
            reason = output.get("blocked_reason") or "scope says that it cannot be done"
            return _failed(ending, Cause.NOT_FEASIBLE, str(reason))
        case Stage.IMPLEMENT if tree == tree_before:
            denied = ", ".join(map(str, ending.evidence.get("denied_tools") or ()))
            why = f"; it was denied {denied}: see agent.allowed_tools" if denied else ""
            return _failed(ending, Cause.NO_CHANGE, f"implement changed no file{why}")
        case Stage.IMPLEMENT if conflicts:
            names = ", ".join(conflicts[:5])
            return _failed(ending, Cause.CONFLICT_MARKERS, f"conflict markers are left in {names}")
        case Stage.REVIEW if tree != tree_before:
            return _failed(ending, Cause.WROTE_FILES, "review changed files; it may only read")
        case Stage.REVIEW if not output.get("approved"):
            return _failed(ending, Cause.REJECTED, _first_issue(output))
        case _:
            return ending


def _first_issue(output: Mapping[str, Any]) -> str:
    issues = output.get("issues")
    if isinstance(issues, list) and issues and isinstance(issues[0], dict):
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        return f"{issues[0].get('file')}: {issues[0].get('description')}{more}"
    return "review did not approve, and named no issue"


def _failed(ending: Ending, cause: Cause, error: str) -> Ending:
    return msgspec.structs.replace(ending, status=ResultStatus.FAILURE, cause=cause, error=error)
