"""A journal with figures that cannot be is shown all the same: every command answers."""

import json
from pathlib import Path

import msgspec
import pytest

from drivers.cli.main import main
from orchestrator.core.events import CooldownStarted, KnownEvent, WindowObserved
from orchestrator.core.model import CallCost, ModelUsage, Stage, Window
from orchestrator.journal.codec import encode_commit
from tests.unit.journal.events import NOW, added, created, dispatched, recorded

HUGE = 1.7e308


def written(root: Path) -> None:
    events: list[KnownEvent] = [created(), added("a"), added("b")]
    usage = ModelUsage(cost_usd=0.25, input_tokens=10**18)
    cost = CallCost(cost_usd=0.25, session_total_usd=0.25, by_model={"\x1b[31m\x00": usage})
    for task in ("a", "b"):
        intake = msgspec.structs.replace(recorded(task, Stage.INTAKE), cost=None)
        scope = msgspec.structs.replace(recorded(task, Stage.SCOPE), cost=cost)
        events += [dispatched(task, Stage.INTAKE), intake, dispatched(task, Stage.SCOPE), scope]
    events += [
        WindowObserved(windows=(Window(name="five_hour", utilization=0.99, resets_at=HUGE),)),
        CooldownStarted(until=HUGE, reason="never"),
    ]
    line = encode_commit(events, after_seq=0, run_id="r1", now=NOW)[0]
    (root / "r1").mkdir()
    # As nothing here would write it any more.
    (root / "r1" / "events.jsonl").write_bytes(line.replace(b"0.25", b"1.7e308"))


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("status", "--json"), ("cost-report", "--text"), ("cost-report", "--csv"),
        ("cost-report", "--json"), ("audit",), ("retrospective",), ("forecast",), ("dispatchable",),
    ],
)  # fmt: skip
def test_every_look_answers(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path)
    assert main(["--root", str(tmp_path), "--run", "r1", *words]) == 0
    said = capsys.readouterr()
    assert "unexpected" not in said.err
    assert "\x1b" not in said.out
    if "--json" in words:
        assert "Infinity" not in said.out
        json.loads(said.out)
