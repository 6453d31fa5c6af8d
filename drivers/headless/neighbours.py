"""The other drivers of the account on this host: what they know, and who goes first.

Invariant: after a limit one driver alone sends one dispatch with a model, and what came
of it is told before another one may send the next.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from orchestrator.core.capacity import Capacity
from orchestrator.core.events import KnownEvent
from orchestrator.core.model import TaskId
from orchestrator.core.plan import Plan
from orchestrator.core.standing import Standing, news, standing_of
from orchestrator.core.state import RunState
from orchestrator.ports.account import Account

LOOK_AGAIN_S = 30.0
"""A driver that is killed with its canary out tells nobody."""


class Say(Protocol):
    def __call__(self, event: str, **values: object) -> None: ...


class Neighbours:
    def __init__(self, account: Account, say: Say) -> None:
        self._account = account
        self._say = say
        self._said = ""
        self._known = Standing()
        self._goes_first = False
        self.have_news = False
        """They may have told something since the last look."""

    # -- what they know -----------------------------------------------------------------------

    def look(self) -> Standing:
        self.have_news = False
        standing = self._account.look()
        self._say_trouble()
        return standing

    def news(self, state: RunState, standing: Standing, now: float) -> Sequence[KnownEvent]:
        return news(state, standing, account=self._account.name, now=now)

    async def tell(self, state: RunState, now: float) -> None:
        """Share what this run knows, if that is not what it said last."""
        known = standing_of(state)
        if known != self._known:
            self._known = known
            await self._account.tell(known, now=now)
            self._say_trouble()

    async def changed(self) -> None:
        await self._account.changed()

    # -- who goes first -----------------------------------------------------------------------

    def within(self, capacity: Capacity, due: Plan, state: RunState, now: float) -> Capacity:
        """Nothing with a model, where a canary has to go first and it is not ours to send.

        ``due``: what would start within ``capacity``.  Where that is nothing with a model, what
        keeps it back is something else than a canary.
        """
        if not (self.is_race_on(state, now) and _has_model(due)):
            return capacity
        return replace(
            capacity,
            limit=0,
            limited_by="canary",
            wake_at=now + LOOK_AGAIN_S,
            of_the_host=capacity.in_all,
        )

    def is_race_on(self, state: RunState, now: float) -> bool:
        """A canary is due, and this driver does not send it yet."""
        return _is_canary_due(state, now) and not self._goes_first

    def try_to_go_first(self, state: RunState, wish: Plan, now: float) -> None:
        """``wish``: what would start then."""
        if not _has_model(wish):
            return
        self._goes_first = self._account.try_canary()
        # Who was first before told what came of it, and only then let go.
        self.have_news |= self._goes_first and bool(self.news(state, self._account.look(), now))
        self._say_trouble()

    def let_go(self, state: RunState, due: Plan, preparing: Collection[TaskId], now: float) -> None:
        """Once what came of the canary is told, or none is sent after all."""
        if not self._goes_first:
            return
        is_out = any(not lease.stage.is_deterministic for lease in state.in_flight.values())
        is_coming = _has_model(due) or any(
            not state.tasks[name].stage.is_deterministic for name in preparing
        )
        if not _is_canary_due(state, now) or not (is_out or is_coming):
            self.close()

    def close(self) -> None:
        self._goes_first = False
        self._account.end_canary()

    def _say_trouble(self) -> None:
        trouble = self._account.trouble
        if trouble and trouble != self._said:
            self._say("what is known of the account is not shared", why=trouble)
        self._said = trouble


def _is_canary_due(state: RunState, now: float) -> bool:
    return state.canary == "account" and (state.cooldown_until or 0.0) <= now


def _has_model(due: Plan) -> bool:
    return any(not start.stage.is_deterministic for start in due.starts)
