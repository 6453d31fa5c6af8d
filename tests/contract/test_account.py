"""What drivers of one account share: the file on disk, and the fake that the simulations use."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from adapters.host.account import LOCK_WAIT_S, AccountFile
from adapters.host.watcher import FileWatcher
from orchestrator.core.model import Window
from orchestrator.core.standing import Limit, Standing
from orchestrator.ports.account import Account
from tests.fakes.account import FakeAccount, SharedAccount

NOW = 1_800_000_000.0
BOUND_S = 5.0

Hand = Callable[[], Account]


@pytest.fixture(params=["fake", "file"])
def hand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hand]:
    """Another driver's hand on one account."""
    shared = SharedAccount("claude")
    if request.param == "fake":
        yield lambda: FakeAccount(shared)
        return
    with ExitStack() as stack:

        def file() -> AccountFile:
            tmp_path.joinpath("accounts").mkdir(exist_ok=True)
            account = AccountFile(tmp_path / "accounts", "claude")
            watched = stack.enter_context(FileWatcher().watch(account.path))
            account.changes = watched.wait
            return account

        yield file


def window(share: float, at: float = NOW, name: str = "five_hour", ends: float = 900) -> Window:
    return Window(name=name, utilization=share, resets_at=NOW + ends, observed_at=at)


async def test_what_one_tells_the_others_see(hand: Hand) -> None:
    one, other = hand(), hand()
    assert (one.name, other.name) == ("claude", "claude")
    assert other.look() == Standing()
    limit = Limit(at=NOW, until=NOW + 60, reason="You've hit your limit", probes=1)
    await one.tell(Standing(windows=(window(0.5),), limit=limit), now=NOW)
    assert other.look() == Standing(windows=(window(0.5),), limit=limit)
    assert (one.trouble, other.trouble) == ("", "")


async def test_the_later_word_stays_whoever_has_it(hand: Hand) -> None:
    one, other = hand(), hand()
    closed = Limit(at=NOW, until=NOW + 600)
    await one.tell(Standing(windows=(window(0.7, NOW + 2),), limit=closed), now=NOW)
    await other.tell(Standing(windows=(window(0.4, NOW + 1),), limit=Limit(at=NOW - 5)), now=NOW)
    assert one.look() == Standing(windows=(window(0.7, NOW + 2),), limit=closed)
    await other.tell(Standing(limit=Limit(at=NOW + 1)), now=NOW + 1)
    assert one.look().limit == Limit(at=NOW + 1)


async def test_what_has_been_reset_is_forgotten(hand: Hand) -> None:
    one = hand()
    await one.tell(Standing(windows=(window(0.9, ends=10),)), now=NOW)
    await one.tell(Standing(windows=(window(0.2, NOW + 20, name="seven_day"),)), now=NOW + 20)
    assert [w.name for w in one.look().windows] == ["seven_day"]


async def test_one_alone_sends_the_canary(hand: Hand) -> None:
    one, other = hand(), hand()
    assert one.try_canary()
    assert one.try_canary()
    assert not other.try_canary()
    one.end_canary()
    assert other.try_canary()
    assert not one.try_canary()
    other.end_canary()
    other.end_canary()


async def test_others_are_told(hand: Hand) -> None:
    one, other = hand(), hand()
    with trio.fail_after(BOUND_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.changed)
            await trio.testing.wait_all_tasks_blocked()
            await one.tell(Standing(windows=(window(0.5),)), now=NOW)
    assert other.look().windows == (window(0.5),)


# -- the file alone ---------------------------------------------------------------------------


@pytest.fixture
def account(tmp_path: Path) -> AccountFile:
    return AccountFile(tmp_path / "state" / "accounts", "claude")


async def test_the_file_is_for_its_user_alone_and_has_a_version(account: AccountFile) -> None:
    await account.tell(Standing(windows=(window(0.5),)), now=NOW)
    assert stat.S_IMODE(account.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(account.path.parent.stat().st_mode) == 0o700
    kept = json.loads(account.path.read_text())
    assert (kept["v"], kept["account"]) == (1, "claude")
    names = {path.name for path in account.path.parent.iterdir()}
    assert names == {"claude.json", "claude.lock"}


def test_looking_writes_nothing(account: AccountFile) -> None:
    assert account.look() == Standing()
    assert not account.path.parent.exists()
    assert account.trouble == ""


async def test_a_damaged_file_is_begun_anew(account: AccountFile) -> None:
    await account.tell(Standing(windows=(window(0.5),)), now=NOW)
    account.path.write_bytes(account.path.read_bytes()[:40])
    assert account.look() == Standing()
    assert "damaged" in account.trouble
    await account.tell(Standing(windows=(window(0.6),)), now=NOW)
    assert account.look().windows == (window(0.6),)


@pytest.mark.parametrize("text", ['{"v": 2, "account": "claude"}', '{"v": 1, "standing": 3}'])
async def test_a_file_of_another_version_is_left_alone(account: AccountFile, text: str) -> None:
    account.path.parent.mkdir(parents=True)
    account.path.write_text(text)
    assert account.look() == Standing()
    await account.tell(Standing(windows=(window(0.6),)), now=NOW)
    assert account.path.read_text() == text
    assert str(account.path) in account.trouble


async def test_where_nothing_can_be_written_a_driver_goes_alone(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a directory")
    alone = AccountFile(tmp_path / "state" / "accounts", "claude")
    await alone.tell(Standing(windows=(window(0.6),)), now=NOW)
    assert alone.look() == Standing()
    assert alone.trouble
    assert alone.try_canary()
    alone.end_canary()


async def test_a_lock_that_somebody_keeps_holds_nobody_up(
    account: AccountFile, autojump_clock: trio.testing.MockClock
) -> None:
    await account.tell(Standing(windows=(window(0.5),)), now=NOW)
    keeper = _holding(account.path.with_suffix(".lock"))
    try:
        began = trio.current_time()
        await account.tell(Standing(windows=(window(0.6, NOW + 1),)), now=NOW)
        assert trio.current_time() - began <= 2 * LOCK_WAIT_S
        assert "lock is held" in account.trouble
        assert account.look().windows == (window(0.5),)
    finally:
        keeper.kill()
        keeper.wait()
    await account.tell(Standing(windows=(window(0.7, NOW + 2),)), now=NOW)
    assert account.look().windows == (window(0.7, NOW + 2),)


def test_the_canary_of_a_driver_that_is_killed_is_free(account: AccountFile) -> None:
    account.path.parent.mkdir(parents=True)
    keeper = _holding(account.path.with_suffix(".canary"))
    assert not account.try_canary()
    keeper.send_signal(signal.SIGKILL)
    keeper.wait()
    assert account.try_canary()
    account.end_canary()


async def test_many_tellers_lose_nothing(account: AccountFile) -> None:
    hands = [AccountFile(account.path.parent, "claude") for _ in range(8)]
    async with trio.open_nursery() as nursery:
        for number, one in enumerate(hands):
            told = Standing(windows=(window(0.1, name=f"seven_day_{number}"),))
            nursery.start_soon(partial(one.tell, told, now=NOW))
    assert len(account.look().windows) == len(hands)


def _holding(path: Path) -> "subprocess.Popen[bytes]":
    """A process that holds the lock, once this returns."""
    code = "import fcntl,os,sys,time; fd=os.open(sys.argv[1], os.O_RDWR|os.O_CREAT); "
    code += "fcntl.flock(fd, fcntl.LOCK_EX); print(flush=True); time.sleep(600)"
    keeper = subprocess.Popen([sys.executable, "-c", code, os.fspath(path)], stdout=subprocess.PIPE)
    assert keeper.stdout is not None
    keeper.stdout.readline()
    keeper.stdout.close()
    return keeper
