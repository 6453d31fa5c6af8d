"""The headless driver's life: lock, open, recover, drive, leave a last record.

Invariant: whatever ends it, but SIGKILL, is written down in driver.jsonl before the
process is gone.
"""

import math
import os
import shlex
import signal
import sys
import time

import trio

from drivers import wiring
from drivers.headless.audience import Listeners
from drivers.headless.derived import Derived
from drivers.headless.foresight import look_ahead
from drivers.headless.heartbeat import DriverLog, Heart, started
from drivers.headless.lock import the_only_driver
from drivers.headless.login import ends_soon
from drivers.headless.narration import open_narration, secrets_of
from drivers.headless.outside import Invocation, RunEnd, finished
from drivers.headless.run_loop import RunLoop
from drivers.wiring_cli import driver_now
from orchestrator.core.errors import Blocked, OrchestratorError, Refused
from orchestrator.core.model import Mode
from orchestrator.core.remedy import command
from orchestrator.core.state import RunState
from orchestrator.journal.projections import repair
from orchestrator.journal.read import read_entries
from orchestrator.journal.store import RunStore
from orchestrator.ports.host import Host
from orchestrator.views.driver_log import read_driver

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_headless(store: RunStore, invocation: Invocation) -> RunEnd:
    """Drive the run.  Raises an OrchestratorError where it cannot even begin, or go on."""
    with the_only_driver(store, lambda: driver_now(store, time.time())):
        try:
            return trio.run(_live, store, invocation)
        except BaseExceptionGroup as group:
            raise _cause(group) from group


async def _live(store: RunStore, invocation: Invocation) -> RunEnd:
    with trio.open_signal_receiver(*SIGNALS) as received:
        send, signals = trio.open_memory_channel[int](math.inf)
        async with trio.open_nursery() as nursery:

            async def pass_on() -> None:
                async for number in received:
                    send.send_nowait(number)

            nursery.start_soon(pass_on)
            end = await _drive(store, invocation, signals)
            nursery.cancel_scope.cancel()
    return end


async def _drive(
    store: RunStore, invocation: Invocation, signals: trio.MemoryReceiveChannel[int]
) -> RunEnd:
    async with wiring.connected(store) as connected:
        run, outside = connected.run, connected.outside
        if run.state.finalized is not None:
            _mend_projections(store, run.state)
            return finished(run.state.finalized)
        _refuse_if_not_whole(run.state)
        wiring.require_programs(run.state.project, os.environ)
        wiring.require_repository(run.state.project)
        _refuse_foreign_driver(store, outside.host, invocation)
        narration = open_narration(store.log_path, secrets=secrets_of(os.environ))
        log = DriverLog(store.driver_path)

        def beat() -> None:
            heart.changed()

        derived = Derived(store, connected.journal)
        audience = Listeners(narration, derived.committed, beat)
        loop = RunLoop(run, outside, invocation, audience)
        heart = Heart(
            log,
            run_id=run.state.run_id,
            look=loop.pulse,
            now=outside.host.now,
            on_fault=lambda error: audience.say("a heartbeat was not written", error=error),
        )
        heart.start(
            started(
                run_id=run.state.run_id,
                now=outside.host.now(),
                host=outside.host.identity(),
                argv=tuple(sys.argv),
                settings=run.state.settings,
                start_time=outside.host.this_process().start_time,
            )
        )
        _say_what_an_interrupt_does(audience, run.state)
        audience.say_if(ends_soon(run.state.login_ends_at, outside.host.now()))
        audience.say_if(_mend_projections(store, run.state))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(heart.run)
                await look_ahead(run, store, invocation, audience, now=outside.host.now())
                end = await loop.drive(signals)
                nursery.cancel_scope.cancel()
        except BaseException as fault:
            _keep_history(derived, run.state, audience)
            cause = _cause(fault)
            heart.stop(f"{type(cause).__name__}: {cause}".splitlines()[0])
            raise
        if derived.is_incomplete:
            audience.say_if(_mend_projections(store, run.state))
        _keep_history(derived, run.state, audience)
        heart.stop(end.reason, signal=signal.Signals(end.signal).name if end.signal else None)
        audience.say("driver ends", reason=end.reason, exit_status=int(end.exit_status))
        return end


def _say_what_an_interrupt_does(audience: Listeners, state: RunState) -> None:
    drain_s = state.settings.drain_s
    audience.say(
        "driving",
        run=state.run_id,
        tasks=len(state.tasks),
        pid=os.getpid(),
        interrupt=f"the first Ctrl-C waits {drain_s:g} s for results and leaves the rest running "
        f"for the next invocation, the second ends them; nothing is lost either way",
    )
    if state.project.agent.permission_mode == "bypassPermissions":
        audience.say("permissions are bypassed for implement, as the project file asks")
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if not has_terminal and os.getsid(0) != os.getpid():
        audience.say(
            "this driver is in its launcher's session: where that is ended after a while, "
            "use --detach"
        )


def _refuse_if_not_whole(state: RunState) -> None:
    if state.mode is Mode.INTERACTIVE:
        raise Refused(
            f"run {state.run_id} is stepped by hand (init-run --mode interactive): next and record"
            f" walk its tasks"
        )
    if not state.tasks:
        add = _command(state, "add-task", "--all")
        raise Refused(f"run {state.run_id} has no tasks; add them: {add}")
    if state.missing:
        missing = sorted(state.missing)
        add = _command(state, "add-task", *(w for name in missing for w in ("--task", name)))
        raise Refused(
            f"run {state.run_id} waits for tasks that are not added: {', '.join(missing)};"
            f" add them: {add}"
        )


def _command(state: RunState, *words: str) -> str:
    return shlex.join(("orchestrator", "--run", state.run_id, *words))


def _refuse_foreign_driver(store: RunStore, host: Host, invocation: Invocation) -> None:
    """The lock is this host's alone; a driver elsewhere is known by its last words."""
    driver = read_driver(
        store.driver_path,
        now=host.now(),
        here=host.identity(),
        is_alive=lambda process, where: False,
    )
    if driver.state == "foreign" and not invocation.take_over:
        raise Blocked(
            f"run {store.run_id} is driven from host {driver.host}, and that driver has not said "
            f"that it ended; make sure that nothing runs there, then: "
            + command(store.run_id, "run-headless", "--take-over")
        )


def _keep_history(derived: Derived, state: RunState, audience: Listeners) -> None:
    try:
        derived.close(state)
    except OSError as error:
        audience.say("what was learned was not kept", error=error)


def _mend_projections(store: RunStore, state: RunState) -> str:
    """What there is to say of it; empty where nothing was missing."""
    try:
        written = repair(store, state, read_entries(store.events_path))
    except OSError as error:
        return f"projections were not mended: {error}"
    return f"projections were mended from the journal: {written} files" if written else ""


def _cause(fault: BaseException) -> BaseException:
    """The one that matters of a group: what we raised on purpose, else the first."""
    if not isinstance(fault, BaseExceptionGroup):
        return fault
    ours = fault.subgroup(OrchestratorError)
    group = ours or fault
    first = group.exceptions[0]
    return _cause(first)
