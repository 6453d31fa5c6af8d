"""What the drivers of one account on this host know together, and which of them goes first."""

from typing import Protocol

from orchestrator.core.standing import Standing


class Account(Protocol):
    """Sharing is a help and never needed: where it is not to be had, every driver goes alone."""

    @property
    def name(self) -> str:
        """Tells accounts apart, and holds no secret."""
        ...

    @property
    def trouble(self) -> str:
        """Why what is known is not shared, for a person; "" while it is."""
        ...

    def look(self) -> Standing:
        """What is known by now.  Never raises, and changes nothing."""
        ...

    async def tell(self, known: Standing, *, now: float) -> None:
        """Add what others do not know yet: of two words on the same thing the later one stays.

        Never raises.  Others are told at once.
        """
        ...

    def try_canary(self) -> bool:
        """Become the one driver that may send a canary; False: another one is.

        Until end_canary(), or the end of this process, however it ends.
        """
        ...

    def end_canary(self) -> None: ...

    async def changed(self) -> None:
        """Return soon after others may have told something.

        Who is told looks before waiting again.
        """
        ...
