"""Say what a person probably meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where nothing is near."""
    import difflib  # costs more than the rest of `--help`, and only a mistake needs it

    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""
