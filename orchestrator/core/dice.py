"""Numbers that look random and are given by their names: the same run, the same futures.

splitmix64: a stream for each tuple of names, so that what one task draws does not depend on
when the others draw, and two forecasts of one run can be compared draw by draw.
"""

import math
from statistics import NormalDist

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_STANDARD = NormalDist()
_SMALLEST = 1e-12


class Dice:
    __slots__ = ("_state",)

    def __init__(self, *names: int) -> None:
        self._state = 0
        for name in names:
            self._state = _mixed((self._state ^ (name & _MASK)) + _STEP)

    def uniform(self) -> float:
        """0 <= x < 1."""
        self._state = (self._state + _STEP) & _MASK
        return (_mixed(self._state) >> 11) * 2.0**-53

    def normal(self) -> float:
        return score(self.uniform())


def score(share: float) -> float:
    """Where in a standard normal distribution ``share`` of it lies below."""
    return _STANDARD.inv_cdf(min(max(share, _SMALLEST), 1.0 - _SMALLEST))


def share(normal: float) -> float:
    """How much of a standard normal distribution lies below."""
    return 0.5 * math.erfc(-normal / math.sqrt(2.0))


def _mixed(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)
