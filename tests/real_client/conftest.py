"""Gives tests the pinned client, or a skip that says why; where CI requires it, a failure.

``agent`` is one of the two agents that keep one contract: the real client and the rehearsal.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.loopback_api import LoopbackApi, Script
from tests.real_client.agents import Agent, RealAgent, RehearsalAgent
from tests.real_client.client import Client
from tests.real_client.install import NotInstalled, binary, version


@pytest.fixture(scope="session")
def real_client() -> Path:
    """The path of the client's binary."""
    try:
        return binary()
    except NotInstalled as error:
        reason = f"the pinned client {version()} cannot be installed: {error}"
        if os.environ.get("ORCHESTRATOR_REQUIRE_REAL_CLIENT") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


class Connect(Protocol):
    def __call__(self, script: Script) -> tuple[Client, LoopbackApi]: ...


@pytest.fixture
def connect(real_client: Path, tmp_path: Path) -> Iterator[Connect]:
    """Starts an API that follows a script, with a client that talks to it."""
    with ExitStack() as stack:

        def start(script: Script) -> tuple[Client, LoopbackApi]:
            api = stack.enter_context(LoopbackApi(script))
            return stack.enter_context(Client([str(real_client)], tmp_path, api.url)), api

        yield start


_REAL = pytest.param("real", marks=[pytest.mark.real_client, pytest.mark.slow])


@pytest.fixture(params=["rehearsal", _REAL])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """Each agent in turn: what they have in common is the contract that a driver relies on."""
    if request.param == "real":
        started: Agent = RealAgent(request.getfixturevalue("real_client"), tmp_path)
    else:
        started = RehearsalAgent(tmp_path)
    try:
        yield started
    finally:
        started.close()
