"""What the run was last expected to come to, and how an expectation has held: for any front end.

From events alone: nothing is foreseen here, so that looking stays quick.
"""

import msgspec

from orchestrator.core.events import ForecastMade
from orchestrator.views.moments import moment

CLOSE_ENOUGH = 0.01
"""Of the cost."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """In ten runs like this one, one comes below ``p10`` and one above ``p90``."""

    p10: float
    p50: float
    p90: float

    def holds(self, value: float, *, slack: float = 0.0) -> bool:
        return self.p10 - slack <= value <= self.p90 + slack


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver expected when it last began."""

    at: float
    """Epoch seconds: when it was made."""
    finish_at: Spread
    """Epoch seconds."""
    cost_usd: Spread
    """Of the whole run, what was spent before included."""
    futures: int


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The first forecast of a run beside what came of it."""

    said: Outlook
    finished_at: float
    cost_usd: float
    time_held: bool
    """It ended between p10 and p90."""
    cost_held: bool
    """The same, to the percent."""


def spread(values: tuple[float, float, float]) -> Spread:
    p10, p50, p90 = values
    return Spread(p10=p10, p50=p50, p90=p90)


def outlook(made: ForecastMade | None) -> Outlook | None:
    if made is None:
        return None
    return Outlook(
        at=made.at,
        finish_at=spread(made.finish_at),
        cost_usd=spread(made.cost_usd),
        futures=made.samples,
    )


def score(made: ForecastMade | None, *, finished_at: float, cost_usd: float) -> Score | None:
    said = outlook(made)
    if said is None:
        return None
    return Score(
        said=said,
        finished_at=finished_at,
        cost_usd=cost_usd,
        time_held=said.finish_at.holds(finished_at),
        # A budget makes all futures cost the same, but for what no stage could be started with.
        cost_held=said.cost_usd.holds(cost_usd, slack=CLOSE_ENOUGH * said.cost_usd.p50),
    )


def in_one_line(made: ForecastMade | Outlook) -> str:
    """``ends Tue 03:12 (02:40 to 04:55), 31.20 USD (26.00 to 40.10)``."""
    finish = made.finish_at if isinstance(made, ForecastMade) else _plain(made.finish_at)
    usd = made.cost_usd if isinstance(made, ForecastMade) else _plain(made.cost_usd)
    early, middle, late = (moment(at) for at in finish)
    return (
        f"ends {middle} ({early} to {late}), {usd[1]:.2f} USD ({usd[0]:.2f} to {usd[2]:.2f}),"
        f" in eight of ten runs"
    )


def score_lines(score: Score) -> list[str]:
    said = score.said
    money, time = said.cost_usd, said.finish_at
    return [
        f"ended      {moment(score.finished_at)}; foreseen {moment(time.p50)}"
        f" ({moment(time.p10)} to {moment(time.p90)}): {_held(score.time_held)}",
        f"cost       {score.cost_usd:.2f} USD; foreseen {money.p50:.2f}"
        f" ({money.p10:.2f} to {money.p90:.2f}): {_held(score.cost_held)}",
    ]


def _held(held: bool) -> str:
    return "within" if held else "outside, as two runs of ten are"


def _plain(values: Spread) -> tuple[float, float, float]:
    return values.p10, values.p50, values.p90
