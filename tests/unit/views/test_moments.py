"""Whatever number is told, a person reads words."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given, strategies as st

from orchestrator.journal.codec import decode, timestamp
from orchestrator.views import moments


@pytest.mark.parametrize(
    "told", [moments.clock, moments.moment, moments.told_at, moments.duration, timestamp]
)
@given(number=st.floats() | st.integers(-(10**18), 10**18))
@example(number=1795996200000)
@example(number=math.inf)
@example(number=math.nan)
@example(number=1e300)
@example(number=-1e300)
@example(number=253402300799.0)
def test_every_number_has_its_words(told: Callable[[float], str], number: float) -> None:
    assert 1 <= len(told(number)) <= 40


@given(st.floats())
def test_what_the_journal_writes_for_a_moment_it_reads(ts: float) -> None:
    line = b'{"v":1,"seq":1,"ts":"%s","run_id":"r","type":"x"}' % timestamp(ts).encode()
    decode(line)


def test_a_span() -> None:
    spans = (8, 200, 7500, 100 * 86_400, math.inf)
    told = ["8 s", "3 min", "2 h 05", "100 days", "no end"]
    assert [moments.duration(span) for span in spans] == told
