"""The dispatches that are being prepared or are out: one trio task each.

A dispatch's task reports over the channel and touches neither state nor journal.
Cancelling it detaches from the child.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio

from drivers.headless.messages import (
    Ended,
    Message,
    NoRoom,
    Observed,
    Permission,
    Ready,
    Unready,
)
from drivers.headless.outside import Outside
from drivers.headless.patience import patiently
from drivers.stages import Dispatched, Errand, fault, in_words, make_errand, verify
from orchestrator.core.choice import is_as_chosen
from orchestrator.core.decide import decide
from orchestrator.core.errors import (
    HOUSE_ERRNOS,
    EnvironmentFault,
    StaleReport,
    in_full,
    is_starved,
)
from orchestrator.core.events import KnownEvent, ResultRejected
from orchestrator.core.model import Ending, Mode, TaskId
from orchestrator.core.plan import StartStage
from orchestrator.core.state import RunState
from orchestrator.journal.live import LiveRun
from orchestrator.ports.execution import Observation, Observe

REFUSED_PAUSE_S = 0.5
"""Whatever a plan says: nobody asks again without a pause for a place that was refused."""


class Dispatches:
    def __init__(
        self,
        run: LiveRun,
        outside: Outside,
        send: trio.MemorySendChannel[Message],
        say: Callable[..., None],
    ) -> None:
        self._run = run
        self._outside = outside
        self._send = send
        self._say = say
        self._nursery: trio.Nursery | None = None
        self._tidying: trio.Nursery | None = None
        self.preparing: set[TaskId] = set()
        self.out: dict[TaskId, Dispatched] = {}
        self._taken_up: set[TaskId] = set()
        self._pids: dict[TaskId, int] = {}
        self._next_start_at = -math.inf

    def open(self, nursery: trio.Nursery, tidying: trio.Nursery) -> None:
        """``tidying`` outlives ``nursery``: what it does is short, and nicer done than not."""
        self._nursery = nursery
        self._tidying = tidying

    # -- called by the loop -----------------------------------------------------------------

    def prepare(self, start: StartStage) -> None:
        self.preparing.add(start.task_id)
        self._start_soon(self._dispatch, start)

    def prepared(self, ready: Ready, *, granted: bool, state: RunState) -> None:
        task_id = ready.errand.start.task_id
        self.preparing.discard(task_id)
        if granted:
            self.out[task_id] = Dispatched.of(state, state.in_flight[task_id])
        ready.permission.give(granted=granted)

    def unprepared(self, task_id: TaskId) -> None:
        self.preparing.discard(task_id)

    def started(self, task_id: TaskId, pid: int) -> None:
        """Said at once: its event goes out with a later commit.  A child that is only taken up
        was started by an earlier driver, and may have ended by now."""
        self._pids[task_id] = pid
        if task_id in self.out and task_id not in self._taken_up:
            self._say("started", task=task_id, stage=self.out[task_id].stage, pid=pid)

    def ended(self, task_id: TaskId) -> None:
        self.out.pop(task_id, None)
        self._taken_up.discard(task_id)
        self._pids.pop(task_id, None)

    def attach(self, state: RunState, task_id: TaskId) -> None:
        """Take up a dispatch of an earlier driver."""
        lease = state.in_flight[task_id]
        out = self.out[task_id] = Dispatched.of(state, lease)
        self._taken_up.add(task_id)
        executor = self._outside.executor
        self._start_soon(self._follow, out, lambda observe: executor.attach(lease, observe))

    def stop_all(self, state: RunState) -> None:
        """End the children of every dispatch that is out; their endings are recorded."""
        for task_id in self.out.keys() & state.in_flight.keys():
            self._start_soon(self._outside.executor.stop, state.in_flight[task_id])

    def tidy(self, worktree: str, branch: str, installed: str) -> None:
        """Remove a completed task's worktree, if nothing in it would be lost."""
        if self._tidying is not None:
            self._tidying.start_soon(self._tidy, worktree, branch, installed)

    def alive(self) -> list[dict[str, object]]:
        """Who is out, and until when at most: for the narration."""
        state, now = self._run.state, self._outside.host.now()
        return [
            {
                "task": task_id,
                "stage": lease.stage,
                "pid": self._pids.get(task_id),
                "by": "hand" if lease.is_interactive else None,
                "ends_within_s": f"{max(0.0, lease.dispatched_at + lease.timeout_s - now):.0f}",
            }
            for task_id, lease in state.in_flight.items()
        ]

    # -- one dispatch -----------------------------------------------------------------------

    async def _dispatch(self, start: StartStage) -> None:
        permission = Permission()
        await self._take_turn(start)
        try:
            errand, has_room = await patiently(
                lambda: self._prepare(start), partial(self._say_starved, start.task_id)
            )
        except Exception as problem:  # noqa: BLE001 - whatever an adapter does wrong, its task pays
            _raise_if_of_the_house(problem, self._outside.run_dir)
            self._send.send_nowait(Unready(start, problem))
            return
        if not has_room:
            await trio.sleep(REFUSED_PAUSE_S)
            self._send.send_nowait(NoRoom(start))
            return
        self._send.send_nowait(Ready(errand, permission))
        await permission.given.wait()
        if not permission.granted:
            await self._outside.executor.discard(errand.work)
            return
        executor, work = self._outside.executor, errand.work
        out = self.out[start.task_id]
        await self._follow(out, lambda observe: executor.run(work, observe))

    async def _take_turn(self, start: StartStage) -> None:
        """Clients that start together may renew one login at once, and lose it for all."""
        if start.stage.is_deterministic:
            return
        at = max(self._next_start_at, trio.current_time())
        self._next_start_at = at + self._run.state.settings.start_gap_s
        await trio.sleep_until(at)

    async def _tidy(self, worktree: str, branch: str, installed: str) -> None:
        workspace = self._outside.workspace
        try:
            kept = await workspace.remove_if_safe(worktree, branch, installed=installed)
        except Exception as problem:  # noqa: BLE001 - a worktree that stays harms nobody
            kept = in_words(problem)
        if kept:
            self._say("a worktree is kept", worktree=worktree, why=kept)

    async def _prepare(self, start: StartStage) -> tuple[Errand, bool]:
        """The errand, and whether the host has room for it."""
        errand = await make_errand(
            self._run.state,
            start,
            workspace=self._outside.workspace,
            host=self._outside.host,
            run_dir=self._outside.run_dir,
            new_session=self._outside.new_session(),
            mode=Mode.HEADLESS,
            redact=self._outside.redact,
        )
        return errand, await self._outside.executor.prepare(errand.work)

    def _say_starved(self, task_id: TaskId, problem: Exception, pause_s: float) -> None:
        self._say(
            "the machine is short", task=task_id, why=in_words(problem), again_in_s=f"{pause_s:g}"
        )

    async def _follow(self, out: Dispatched, begin: Callable[[Observe], Awaitable[Ending]]) -> None:
        def observe(observation: Observation) -> None:
            self._send.send_nowait(Observed(out, observation))

        ending: Ending | None = None
        try:
            ending = await begin(observe)
            report = await patiently(
                partial(verify, out, ending, self._outside.workspace),
                partial(self._say_starved, out.task_id),
            )
        except Exception as problem:  # noqa: BLE001 - whatever an adapter does wrong, its task pays
            _raise_if_of_the_house(problem, self._outside.run_dir)
            report = fault(out, problem, now=self._outside.host.now(), ending=ending)
        self._send.send_nowait(Ended(out, report))

    def _start_soon(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        if self._nursery is None:
            raise RuntimeError("open() comes first")
        self._nursery.start_soon(function, *args)


def granted(state: RunState, ready: Sequence[Ready], due: Sequence[StartStage]) -> list[KnownEvent]:
    """The intents of those that are still due, and as they are to be now, to be committed."""
    wanted = {start.task_id: start for start in due}
    events: list[KnownEvent] = []
    for each in ready:
        work = each.errand.work
        start = wanted.get(work.task_id)
        if start is not None and start.allows(each.errand.start) and is_as_chosen(state, work):
            events += each.errand.intents()
    return events


def judged(state: RunState, ended: Ended, now: float) -> Sequence[KnownEvent]:
    """What its result leads to, or why it answers nothing."""
    try:
        return decide(state, ended.report, now)
    except StaleReport as stale:
        rejected = ResultRejected(
            task_id=ended.out.task_id, work_item_id=ended.out.work_item_id, reason=str(stale)
        )
        return (rejected,)


def _raise_if_of_the_house(problem: Exception, run_dir: str) -> None:
    """A fault around one task costs that task; one of the machine stops the driver."""
    if is_starved(problem):
        raise EnvironmentFault(
            f"{in_words(problem)}: the machine cannot start processes or threads, for minutes by"
            " now; raise its limits (`ulimit -u`, TasksMax=), free memory, or lower max_concurrent,"
            " then run the same command again"
        ) from problem
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in HOUSE_ERRNOS:
            # A write to what is open already names no file.
            what = "" if cause.filename else f"writing to {run_dir}, or to a worktree"
            raise EnvironmentFault(in_full(cause, what)) from problem
        cause = cause.__cause__
