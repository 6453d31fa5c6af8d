"""Accounts in memory: what drivers share, and a hand on it for each driver.

A hand keeps the promises of tests/contract/test_account.py and none beside.
"""

from dataclasses import dataclass, field

import trio

from orchestrator.core.standing import Standing, merged


@dataclass
class SharedAccount:
    """What lies between the drivers."""

    name: str = "claude"
    standing: Standing = field(default_factory=Standing)
    canary: "FakeAccount | None" = None
    hands: list["FakeAccount"] = field(default_factory=list)

    def add(self, known: Standing, now: float) -> None:
        before = self.standing
        self.standing = merged(before, known, now)
        if self.standing != before:
            for hand in self.hands:
                hand.news.set()


class FakeAccount:
    """The Account port of one driver."""

    trouble = ""

    def __init__(self, shared: SharedAccount) -> None:
        self.shared = shared
        self.news = trio.Event()
        shared.hands.append(self)

    @property
    def name(self) -> str:
        return self.shared.name

    def look(self) -> Standing:
        return self.shared.standing

    async def tell(self, known: Standing, *, now: float) -> None:
        await trio.lowlevel.checkpoint()
        self.shared.add(known, now)

    def try_canary(self) -> bool:
        if self.shared.canary is None:
            self.shared.canary = self
        return self.shared.canary is self

    def end_canary(self) -> None:
        if self.shared.canary is self:
            self.shared.canary = None

    async def changed(self) -> None:
        await self.news.wait()
        self.news = trio.Event()

    def die(self) -> None:
        """As the kernel does with the locks of a process that is gone."""
        self.end_canary()
        self.shared.hands.remove(self)
