"""A task's id made safe for file and branch names, unique in its run.

The journal keeps both, so the way back is a look-up.
"""

import re
import unicodedata
from collections.abc import Collection

LENGTH_MAX = 60

_PAIRS = "ß=ss ẞ=SS æ=ae Æ=AE œ=oe Œ=OE þ=th Þ=Th ø=o Ø=O đ=d Đ=D ð=d Ð=D ł=l Ł=L"
_LETTERS = str.maketrans(dict(pair.split("=") for pair in _PAIRS.split(" ")))
"""Latin ones that are no letter of ASCII with a mark."""


def slug_of(task_id: str, taken: Collection[str]) -> str:
    """``#12`` -> ``12``, ``Größe`` -> ``Grosse``.  Names that differ in case alone count as one,
    as some disks have it."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", _without_marks(task_id))
    slug = plain.strip("-")[:LENGTH_MAX].rstrip("-") or "task"
    if re.search(r"-r\d+$", slug):
        slug += "_"  # a requeued task's branch is its name and -r2
    lowered = {name.lower() for name in taken}
    unique, number = slug, 1
    while unique.lower() in lowered:
        number += 1
        unique = f"{slug}-{number}"
    return unique


def _without_marks(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return "".join(part for part in parts if not unicodedata.combining(part))
