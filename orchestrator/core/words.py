"""What a person probably meant, and what a state or a value is called to a person."""

from collections.abc import Iterable
from typing import Any

_FOR_PEOPLE = {
    "rejected": "abandoned",
    "completed_with_rejections": "completed, but for what was abandoned",
}
"""States whose names are promised to programs, and say something else to people."""


def in_words(state: str) -> str:
    """A task's or a run's state."""
    return _FOR_PEOPLE.get(state, state.replace("_", " "))


def counted(number: int, one: str, many: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number} {one if number == 1 else many}"


def usd_text(amount: float) -> str:
    """``20.00``; below one USD with what there is of a cent, so that it can be told from a budget
    that is not quite spent: ``0.0355``."""
    if abs(amount) >= 1.0:
        return f"{amount:.2f}"
    whole, _, digits = f"{amount:.4f}".partition(".")
    return f"{whole}.{digits.rstrip('0'):0<2}"


def plain(value: Any) -> str:
    """A value of the journal."""
    match value:
        case None | "" | [] | ():
            return "none"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def is_text(word: str) -> bool:
    """A name with bytes that are no UTF-8 can be neither recorded nor pasted."""
    return not any("\ud800" <= char <= "\udfff" for char in word)


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where nothing is near."""
    import difflib  # costs more than the rest of `--help`, and only a mistake needs it

    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""
