"""What a person should hear of a stage that went well: of a test that proves nothing, and of
files that an install left where git sees them.

Invariant: pure, and tolerant of whatever stands in the evidence.
"""

from collections.abc import Mapping
from typing import Any

NAMED_MAX = 3


def remarks(evidence: Mapping[str, Any]) -> dict[str, str]:
    """By the key of the evidence; empty where there is nothing to remark."""
    found = {}
    if blank := evidence.get("proves_nothing"):
        found["proves_nothing"] = str(blank)
    left = evidence.get("install_leaves")
    if isinstance(left, list) and left:
        more = f" and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else ""
        names = ", ".join(map(str, left[:NAMED_MAX]))
        found["install_leaves"] = (
            f"{names}{more}: these stay off the branch, but for what the work changes in them"
        )
    return found
