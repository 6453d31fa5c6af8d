"""A task's id made safe for file and branch names, unique in its run.

The journal keeps both, so the way back is a look-up.
"""

import re
from collections.abc import Collection

LENGTH_MAX = 60


def slug_of(task_id: str, taken: Collection[str]) -> str:
    """``#12`` -> ``12``.  Names that differ in case alone count as one, as some disks have it."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", task_id).strip("-")[:LENGTH_MAX].rstrip("-") or "task"
    if re.search(r"-r\d+$", slug):
        slug += "_"  # a requeued task's branch is its name and -r2
    lowered = {name.lower() for name in taken}
    unique, number = slug, 1
    while unique.lower() in lowered:
        number += 1
        unique = f"{slug}-{number}"
    return unique
