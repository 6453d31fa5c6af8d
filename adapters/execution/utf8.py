"""A UTF-8 locale for children, whatever the driver was started under.

A service, a cron job or a minimal container runs under ``C``: tools then write ``?`` for every
letter beyond ASCII, and tests fail that pass at a terminal.
"""

import re
from collections.abc import Mapping

_UTF8 = re.compile(r"utf-?8", re.IGNORECASE)
_LOCALE = "C.UTF-8"


def in_utf8(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with its own locale where that is one of UTF-8, else with a neutral one."""
    env = dict(environ)
    # As a C library looks: the first that is set and not empty counts.
    counts = next((v for n in ("LC_ALL", "LC_CTYPE", "LANG") if (v := env.get(n))), "")
    if not _UTF8.search(counts):
        env.pop("LC_ALL", None)
        env.update(LANG=_LOCALE, LC_CTYPE=_LOCALE)
    env.setdefault("LANG", _LOCALE)
    env.setdefault("PYTHONUTF8", "1")
    return env
