"""A subscription's windows and limits, end to end: the real driver and the real client."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from orchestrator.core.settings import Settings
from orchestrator.core.windows import limit_at
from tests.loopback_api import Reply, Request, Turn, replies
from tests.real_client.batch import Batch, Model
from tests.real_client.client import API_KEY, SUBSCRIPTION

pytestmark = [pytest.mark.real_client, pytest.mark.slow]

MODEL_STAGES = ("scope", "implement", "review")
FULL_S = 5
LIMIT = 3


@pytest.fixture
def batch(real_client: Path, tmp_path: Path) -> Iterator[Callable[[Model], Batch]]:
    with ExitStack() as stack:
        yield lambda model: stack.enter_context(Batch(real_client, tmp_path, model))


def at(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["ts"]).timestamp()


def heartbeats(done: Batch) -> list[dict[str, Any]]:
    (path,) = done.store.rglob("driver.jsonl")
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [line for line in lines if line["type"] == "driver_heartbeat"]


def model_dispatches(done: Batch) -> list[dict[str, Any]]:
    return [e for e in done.events("stage_dispatched") if e["stage"] in MODEL_STAGES]


def standing(done: Batch) -> dict[str, Any]:
    (path,) = (done.home / ".local" / "state" / "orchestrator" / "accounts").glob("*.json")
    assert path.name.startswith("token-")
    kept = json.loads(path.read_text())["standing"]
    assert isinstance(kept, dict)
    return kept


def test_a_rejection_is_waited_out_and_the_batch_completes(
    batch: Callable[[Model], Batch],
) -> None:
    """The five-hour window is full for all, from the first answer to implement until its reset."""
    resets_at = math.inf

    def full(request: Request) -> Reply | None:
        nonlocal resets_at
        if resets_at == math.inf and request.stage == "implement":
            resets_at = math.ceil(time.time()) + FULL_S
        if resets_at != math.inf and time.time() < resets_at:
            return replies.limit_reached(resets_in_s=resets_at - time.time() + 0.5)
        return None

    done = batch(Model(instead=full))
    done.make_run("T1", "T2", "T3")
    assert done.drive(SUBSCRIPTION) == 0, done.narration()

    status = done.status()
    assert {task["state"] for task in status["tasks"]} == {"completed"}
    assert {event["attempt"] for event in done.events("stage_dispatched")} == {1}
    assert not [e for e in done.events("retry_scheduled") if e["spends_attempt"]]
    hit = [e for e in done.events("stage_recorded") if e.get("cause") == "limit"]
    assert {event["outcome"] for event in hit} == {"again"}
    (started, *_) = done.events("cooldown_started")
    (ended,) = done.events("cooldown_ended")
    assert started["until"] >= resets_at
    meanwhile = [e for e in model_dispatches(done) if at(started) < at(e) < at(ended)]
    assert len(meanwhile) == 1, "the canary"
    assert at(meanwhile[0]) >= resets_at
    waits = [beat for beat in heartbeats(done) if beat["limited_by"] == "cooldown"]
    assert any(0 < beat.get("wait_remaining_s", 0) <= FULL_S + 1 for beat in waits)
    assert "usage limit" in waits[0]["reason"]
    assert "cooling down" in done.narration()
    assert "until" not in standing(done)["limit"]


@dataclass
class Filling:
    """The account's five-hour window, fuller with each stage that asks."""

    shares: tuple[float, ...] = (0.60, 0.60, 0.60, 0.75, 0.80, 0.85, 0.88, 0.95)
    """The first as often as there are tasks at once: what is heard together is told once."""
    asked: set[tuple[str, str]] = field(default_factory=set)
    resets_at: float = math.inf
    lock: Lock = field(default_factory=Lock)

    def headers(self, request: Request) -> dict[str, str]:
        with self.lock:
            self.asked.add((request.task, request.stage))
            share = self.shares[min(len(self.asked), len(self.shares)) - 1]
            if share == self.shares[-1] and self.resets_at == math.inf:
                self.resets_at = math.ceil(time.time()) + FULL_S
            if time.time() >= self.resets_at:
                return replies.windows(five_hour=0.05, resets_at=self.resets_at + 18_000)
            ends_at = self.resets_at if self.resets_at != math.inf else time.time() + 3600
            return replies.windows(five_hour=share, resets_at=ends_at)


def test_a_window_that_fills_lowers_the_limit_as_documented(
    batch: Callable[[Model], Batch],
) -> None:
    filling = Filling()
    model = Model()

    def answer(request: Request) -> Reply | None:
        turn = model._go_on(request)
        assert isinstance(turn, Turn)
        return replace(turn, headers=filling.headers(request))

    model.instead = answer
    done = batch(model)
    done.make_run("T1", "T2", "T3", max_concurrent=str(LIMIT))
    assert done.drive(SUBSCRIPTION) == 0, done.narration()

    told = [beat for beat in heartbeats(done) if beat["util"] is not None]
    seen = {round(beat["util"], 2): beat["dispatch_limit"] for beat in told}
    for beat in told:
        assert beat["dispatch_limit"] == limit_at(beat["util"], LIMIT, Settings())
    assert seen[0.6] == LIMIT
    assert seen[0.95] == 0
    assert len(set(seen.values())) >= 3, seen
    observed = [
        (at(event), window["utilization"])
        for event in done.events("window_observed")
        for window in event["windows"]
        if window["name"] == "five_hour"
    ]
    full_at = next(ts for ts, share in observed if share == 0.95)
    # What was on its way then may be a commit later.
    late = [e for e in model_dispatches(done) if full_at < at(e) < filling.resets_at]
    assert late == []
    (intake,) = done.recorded("T3", "intake")
    assert at(intake) < filling.resets_at, "a stage without a model does not wait"
    waits = [b for b in told if b["limited_by"] == "usage_window:five_hour" and not b["in_flight"]]
    assert waits[-1]["state"] == "waiting_on_capacity"
    assert done.status()["run_state"] == "completed"
    assert not [e for e in done.events("retry_scheduled") if e["spends_attempt"]]


def test_a_key_that_is_not_to_pay_stops_the_run_before_it_costs_anything(
    batch: Callable[[Model], Batch],
) -> None:
    """The client would take the key before the subscription, without a word."""
    done = batch(Model())
    file = done.repository / ".orchestrator" / "project.toml"
    helper = done.home / ".claude"
    helper.mkdir()
    (helper / "settings.json").write_text(json.dumps({"apiKeyHelper": "echo sk-ant-dummy-key"}))
    text = file.read_text().replace('pass_env = ["ANTHROPIC_API_KEY"]\n', "")
    file.write_text(text.replace("[agent]\n", '[agent]\nbilling = "subscription"\n'))
    done.git("commit", "-q", "-am", "A subscription pays")
    done.make_run("T1", lane="micro")
    assert done.drive(API_KEY) == 3, done.narration()

    (paused,) = done.events("run_paused")
    assert "the client bills an API key (apiKeyHelper)" in paused["reason"]
    assert "agent.billing" in paused["reason"]
    (recorded,) = done.recorded("T1", "implement")
    assert recorded.get("cost", {}).get("cost_usd", 0.0) == 0.0
    assert (recorded["cause"], recorded["outcome"]) == ("misconfigured", "again")
    assert done.clients() == []
