"""When the account's login ends: said while there is time to renew it."""

from datetime import datetime

SOON_S = 3 * 24 * 3600.0
_HOUR_S = 3600.0


def ends_soon(ends_at: object, now: float) -> str:
    """What there is to say, "" where it is far off or not known.  ``ends_at``: as the client
    tells it (ISO 8601); ``now``: epoch seconds."""
    try:
        left_s = datetime.fromisoformat(str(ends_at)).timestamp() - now
    except (ValueError, OverflowError, OSError):
        return ""
    if left_s > SOON_S:
        return ""
    if left_s <= 0:
        return "the client's login has ended: renew it with `claude /login`"
    return (
        f"the client's login ends in {left_s / _HOUR_S:.0f} hours: renew it with `claude /login`,"
        " or the run pauses there"
    )
