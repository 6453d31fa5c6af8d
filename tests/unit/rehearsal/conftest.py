from pathlib import Path

import pytest

from tests.unit.rehearsal.agent import Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)
