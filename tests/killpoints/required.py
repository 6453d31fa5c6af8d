"""Whether a test that needs strace, or a disk of its own, may be left out where there is none."""

import os

import pytest

from tests.killpoints.batch import is_allowed_here

REQUIRED = "ORCHESTRATOR_REQUIRE_STRACE"
"""Set to 1 in a build that must not pass without its kill points."""


def needs_strace() -> None:
    if not (why := is_allowed_here()):
        return
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{why}, and {REQUIRED} is set")
    pytest.skip(why)
