"""``next`` and ``record`` as a person meets them, who reads text and has no driver."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_process import make_home

pytestmark = pytest.mark.slow


def test_what_is_handed_out_says_what_to_hand_back(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    home.json("--run", "r1", "init-run", "--mode", "interactive")
    home.json("--run", "r1", "add-task", "--all")
    done = home.call("--run", "r1", "next", "--task", "#12", "--text")
    assert done.returncode == 0, done.stderr
    assert '"work_item_id": "12/scope/a1/d1"' in done.stdout
    assert '"feasible"' in done.stdout, "the form of the answer is there"
    assert "(resume it" not in done.stdout
    again = home.call("--run", "r1", "next", "--task", "#12", "--resume", "--text")
    assert "(resume it, if whoever had it before has begun it)" in again.stdout

    # Nothing is left for a driver to mend: they write their own projections.
    assert (home.store("r1") / "stages" / "12" / "01-intake.json").exists()
    audit = home.call("--run", "r1", "audit", "--text").stdout
    assert "out by hand: 12/scope/a1/d2" in audit
    told = home.call("--run", "r1", "tail", "#12", "--stage", "intake")
    assert told.stdout.startswith("--- intake-attempt1\n")
    refused = home.call("--run", "r1", "tail", "#12", "--stage", "review")
    assert refused.returncode == 1
    assert "#12 has no review; there are intake" in refused.stderr


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_rehearsal_agent_says_what_it_is(word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "adapters.execution.rehearsal", word],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith("usage: python -m adapters.execution.rehearsal")
