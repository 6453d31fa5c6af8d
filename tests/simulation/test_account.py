"""Several drivers of one account, on a mock clock: what one meets is waited out by all."""

import random
from itertools import pairwise

import trio
import trio.testing

from drivers.headless.outside import Invocation
from orchestrator.core.events import CooldownEnded, CooldownStarted, StageDispatched
from orchestrator.core.fold import replay
from orchestrator.core.model import Cause, Ending, Stage
from orchestrator.core.settings import Settings
from orchestrator.core.standing import Limit, Standing
from tests.fakes.account import FakeAccount, SharedAccount
from tests.simulation.driving import drive_once, entries_of, make_run, task
from tests.simulation.world import EPOCH, Quiet, World, failure, success

DRIVERS = 3
TASKS = 4


class Subscription:
    """The one that all of them use: full from one moment to another, whoever asks."""

    def __init__(self, *, full_from_s: float, resets_at_s: float, open_from_s: float = 0.0) -> None:
        self.full_from = EPOCH + full_from_s
        self.resets_at = EPOCH + resets_at_s
        self.open_from = max(self.resets_at, EPOCH + open_from_s)
        self.rejected: list[float] = []
        self.asked: list[float] = []

    def answer(
        self, rng: random.Random, world: World, stage: Stage, task_id: str, attempt: int
    ) -> Ending:
        if stage.is_deterministic:
            return success(stage)
        now = EPOCH + trio.current_time()
        self.asked.append(now)
        if self.full_from <= now < self.open_from:
            self.rejected.append(now)
            return failure(Cause.LIMIT, "You've hit your limit", resets_at=self.resets_at)
        return success(stage, cost_usd=0.1)


async def worlds(subscription: Subscription, **settings: float) -> list[World]:
    account = SharedAccount()
    made = []
    for number in range(DRIVERS):
        world = World(rng=random.Random(number), script=subscription.answer, account=account)
        world.stage_s_max = 60.0
        told = Settings(limit_jitter_s=10.0, limit_probe_s=300.0, **settings)  # type: ignore[arg-type]
        await make_run(world, [task(f"t{n}") for n in range(TASKS)], told)
        made.append(world)
    return made


async def drive_all(all_of_them: list[World]) -> None:
    async with trio.open_nursery() as nursery:
        for world in all_of_them:
            nursery.start_soon(drive_once, world)


async def test_a_limit_that_one_meets_is_waited_out_by_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    account = Subscription(full_from_s=100, resets_at_s=9000)
    all_of_them = await worlds(account)
    await drive_all(all_of_them)
    early = [at for at in account.rejected if at < account.resets_at]
    # Those that were out when it was met; nobody starts one that would meet it, too.
    assert len(early) <= DRIVERS * Settings().max_concurrent
    assert max(early) - min(early) <= 60.0
    assert not [at for at in account.asked if max(early) < at < account.resets_at]
    for world in all_of_them:
        entries = await entries_of(world)
        state = replay(entries)
        assert state.is_settled
        assert state.audit.attempts_spent == 0
        assert any(isinstance(e.event, CooldownEnded) for e in entries)
        known = next(e for e in entries if isinstance(e.event, CooldownStarted))
        for entry in entries:
            event = entry.event
            is_model = isinstance(event, StageDispatched) and not event.stage.is_deterministic
            if is_model and entry.seq > known.seq:
                assert entry.ts >= account.resets_at


async def test_one_canary_in_all_asks_whether_it_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It outlasts its reset by more than an hour: one driver asks, less and less often."""
    account = Subscription(full_from_s=100, resets_at_s=3000, open_from_s=8000)
    all_of_them = await worlds(account)
    await drive_all(all_of_them)
    late = [at for at in account.rejected if at >= account.resets_at]
    assert 2 <= len(late) <= 5
    waits = [after - before for before, after in pairwise(late)]
    assert waits == sorted(waits)
    assert min(waits) >= 300.0
    for world in all_of_them:
        state = replay(await entries_of(world))
        assert (state.is_settled, state.audit.attempts_spent) == (True, 0)
    assert all_of_them[0].account.canary is None


async def test_what_is_known_of_the_account_holds_for_a_driver_that_begins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    account = Subscription(full_from_s=0, resets_at_s=0)
    (world, *_) = await worlds(account)
    world.account.standing = Standing(limit=Limit(at=EPOCH - 5, until=EPOCH + 5000, reason="full"))
    heard = Quiet()
    end = await drive_once(world, invocation=Invocation(wait=False), audience=heard)
    assert end.exit_status == 3
    assert "come back" in end.reason
    assert account.asked == []
    stages = {e.event.stage for e in heard.entries if isinstance(e.event, StageDispatched)}
    assert stages == {Stage.INTAKE}
    assert trio.current_time() < 1000
    await drive_once(world)
    assert min(account.asked) >= EPOCH + 5000
    assert replay(await entries_of(world)).is_settled


async def test_a_driver_that_dies_with_its_canary_leaves_it_to_the_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    account = Subscription(full_from_s=100, resets_at_s=3000)
    first, *others = await worlds(account)
    gone = FakeAccount(first.account)
    assert gone.try_canary()

    async def dies() -> None:
        await trio.sleep(4000)
        assert not [at for at in account.asked if at >= account.resets_at]
        gone.die()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(dies)
        nursery.start_soon(drive_all, others)
    for world in others:
        assert replay(await entries_of(world)).is_settled
