from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from adapters.execution.claude.limits import is_limit, resets_at

NOW = datetime(2026, 11, 29, 16, 2, tzinfo=UTC).timestamp()  # a Sunday


def at(*when: int, zone: str = "UTC") -> float:
    year, month, day, hour, minute = when
    return datetime(year, month, day, hour, minute, tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("Claude AI usage limit reached|1749924000", 1749924000.0),
        ("Claude AI usage limit reached|1749924000000", 1749924000.0),
        ("Claude AI usage limit reached|9999999999", None),
        ("Claude AI usage limit reached|99999999999999999999", None),
        ("You've hit your 5-hour limit · resets 5:02pm (UTC)", at(2026, 11, 29, 17, 2)),
        ("You've hit your limit · resets 3:45pm (UTC)", at(2026, 11, 30, 15, 45)),
        (
            "You've hit your limit · resets 11:30pm (Europe/Berlin)",
            at(2026, 11, 29, 23, 30, zone="Europe/Berlin"),
        ),
        (
            "Your limit will reset at 3pm (America/Los_Angeles).",
            at(2026, 11, 29, 15, 0, zone="America/Los_Angeles"),
        ),
        ("You've hit your weekly limit · resets Mon 12:00am (UTC)", at(2026, 11, 30, 0, 0)),
        ("You've hit your weekly limit · resets Sun 4pm (UTC)", at(2026, 12, 6, 16, 0)),
        (
            "resets Dec 9 at 1am (America/Sao_Paulo)",
            at(2026, 12, 9, 1, 0, zone="America/Sao_Paulo"),
        ),
        ("resets Jan 5, 8am (Europe/Berlin)", at(2027, 1, 5, 8, 0, zone="Europe/Berlin")),
        ("You've hit your limit · resets 12am (UTC)", at(2026, 11, 30, 0, 0)),
        ("resets 5pm (No/Such_Zone)", at(2026, 11, 29, 17, 0)),
        ("resets Feb 30, 8am (UTC)", None),
        ("resets 99:99pm", None),
        ("You've hit your Opus limit", None),
        ("", None),
    ],
)
def test_moment_that_a_message_names(said: str, moment: float | None) -> None:
    assert resets_at(said, now=NOW) == moment


def test_moment_in_this_machines_zone() -> None:
    found = resets_at("5-hour limit reached ∙ resets 3pm", now=NOW)
    assert found is not None
    local = datetime.fromtimestamp(found).astimezone()
    assert (local.hour, local.minute) == (15, 0)
    assert 0 < found - NOW <= 86400


@pytest.mark.parametrize(
    "said",
    [
        "You're now using usage credits",
        "You've used 91% of your session limit",
        "You're close to your limit",
        "The test says: You've hit your limit",
        "API Error: Request rejected (429) · exceed your account's rate limit",
    ],
)
def test_words_that_are_no_limit(said: str) -> None:
    assert not is_limit(said)
