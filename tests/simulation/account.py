"""The account as simulated drivers share it: a hand dies with its process, between two calls."""

from orchestrator.core.standing import Standing
from tests.fakes.account import FakeAccount, SharedAccount
from tests.simulation.machine import PROCESS, Machine


class VirtualAccount(FakeAccount):
    def __init__(self, shared: SharedAccount, machine: Machine) -> None:
        shared.hands = [hand for hand in shared.hands if not _is_dead(hand)]
        super().__init__(shared)
        self._machine = machine
        self.process = PROCESS.get()

    async def tell(self, known: Standing, *, now: float) -> None:
        self._machine.system.step()
        await super().tell(known, now=now)
        self._machine.system.step()

    def try_canary(self) -> bool:
        self._machine.system.step()
        if _is_dead(self.shared.canary):
            self.shared.canary = None
        return super().try_canary()


def _is_dead(hand: FakeAccount | None) -> bool:
    return isinstance(hand, VirtualAccount) and not hand.process.is_alive
