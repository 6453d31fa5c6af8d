"""What a failed attempt teaches the next one, and what identical failures share."""

import hashlib
import re
from typing import Any

from orchestrator.core.model import Cause, Ending, Stage
from orchestrator.core.state import TaskState

LEARNINGS_CHARS_MAX = 12_000
OUTPUT_TAIL_CHARS_MAX = 4_000

_VARIES = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+(\.\d+)?|/\S+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def signature_of(stage: Stage, ending: Ending) -> str:
    """Equal for failures that are the same but for numbers, paths and quoted names.

    The failing tests are the signature of a test stage: which tests, not what they said.
    Review's words differ each time, so a rejection has none.
    """
    if ending.cause is None or ending.cause is Cause.REJECTED:
        return ""
    failed = ending.evidence.get("failed")
    if isinstance(failed, list) and failed:
        text = "\n".join(sorted(str(name) for name in failed))
    else:
        text = _VARIES.sub("~", ending.error.lower())
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{stage}:{ending.cause}:{digest}"


def learnings_from(task: TaskState, ending: Ending) -> str:
    """What to tell the next attempt, with what earlier ones were told before it; bounded."""
    parts = [f"{task.stage} attempt {task.attempt}: {ending.cause}. {ending.error}".rstrip()]
    told = ending.evidence.get("learnings")
    if isinstance(told, str) and told:
        parts.append(told)
    elif ending.cause is Cause.REJECTED:
        parts.extend(findings(ending.structured_output))
    elif ending.raw_output:
        parts.append(f"The last output was:\n{ending.raw_output[-OUTPUT_TAIL_CHARS_MAX:]}")
    text = "\n".join(parts)
    if task.learnings:
        text = f"{text}\n\nBefore that:\n{task.learnings}"
    return text[:LEARNINGS_CHARS_MAX]


def findings(output: Any) -> list[str]:
    """A review's issues, a line each."""
    if not isinstance(output, dict):
        return []
    lines = []
    for issue in output.get("issues") or ():
        if isinstance(issue, dict):
            where = f"{issue.get('file', '?')}:{issue.get('line') or '?'}"
            lines.append(f"- [{issue.get('severity', '?')}] {where} {issue.get('description', '')}")
    return lines
