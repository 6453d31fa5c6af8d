"""Gives tests the pinned client, or a skip that says why; where CI requires it, a failure."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from tests.loopback_api import LoopbackApi, Script
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
            return stack.enter_context(Client(real_client, tmp_path, api.url)), api

        yield start
