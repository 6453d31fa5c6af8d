"""What a fault is: when it acts, what it does, and the words that list it."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from adapters.execution.rehearsal.conversation import Act, Moment


class Kind(NamedTuple):
    moment: Moment
    act: Act
    about: str


def registry() -> tuple[dict[str, Kind], Callable[[Moment], Callable[[Act], Act]]]:
    """The faults of one theme, and the decorator that adds to them."""
    kinds: dict[str, Kind] = {}

    def at(moment: Moment) -> Callable[[Act], Act]:
        def register(act: Act) -> Act:
            kinds[act.__name__] = Kind(moment, act, " ".join((act.__doc__ or "").split()))
            return act

        return register

    return kinds, at


def be_silent(params: dict[str, Any]) -> None:
    """For `seconds`; for ever where none are named."""
    if "seconds" in params:
        time.sleep(params["seconds"])
        return
    while True:
        time.sleep(3600)
