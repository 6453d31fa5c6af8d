"""Waiting for, signalling and ending processes that are nobody's children here, in trio.

Invariant: every wait here is bounded by its caller's scope or by a figure with its unit in its
name, and nothing is signalled whose identity does not match.
"""

import os
import select
import signal
import sys
from functools import partial
from typing import Any

import trio

from adapters.host import cgroup, processes
from orchestrator.core.model import ProcessIdentity

POLL_S = 0.05
"""Where the kernel cannot tell: how often is looked."""
KILL_WAIT_S = 5.0
"""How long what was sent SIGKILL may take to go, before it is counted as a survivor."""


def is_alive(identity: ProcessIdentity) -> bool:
    return processes.is_alive(_pair(identity))


def signal_if_same(identity: ProcessIdentity, number: int) -> bool:
    """Send a signal to that very process.  False: it has ended, or may not be signalled."""
    return processes.signal_if_same(_pair(identity), number)


async def wait_for_exit(identity: ProcessIdentity) -> None:
    """Return when that very process has ended; a zombie counts as ended."""
    if sys.platform == "linux":
        await _wait_on_pidfd(identity)
    elif hasattr(select, "kqueue"):
        await _wait_on_kqueue(identity)
    else:
        await _wait_by_looking(identity)


async def end_family(
    root: ProcessIdentity | None,
    tag: str,
    group: str = "",
    *,
    interrupt_wait_s: float,
    terminate_wait_s: float,
) -> tuple[int, int]:
    """End ``root``, its descendants, whatever carries ``tag`` and the members of a control
    group: SIGINT, SIGTERM, SIGKILL.

    For when the shim is lost; the shim itself climbs the same ladder.  Returns how many ended
    and how many survive.
    """
    seen: set[processes.Identity] = set()
    marker = _marker(tag)

    def left() -> list[processes.Identity]:
        roots = [_pair(root)] if root is not None and is_alive(root) else []
        alive = roots + processes.family(roots, marker, partial(cgroup.members, group))
        seen.update(one for one in alive if one[1] >= 0)
        return alive

    if root is not None and interrupt_wait_s > 0 and signal_if_same(root, signal.SIGINT):
        with trio.move_on_after(interrupt_wait_s):
            await wait_for_exit(root)
    with trio.move_on_after(terminate_wait_s):  # looking and signalling are part of the wait
        alive = left()
        _signal_all(alive, signal.SIGTERM)
        while alive:
            await _all_gone(alive)
            alive = left()
    with trio.move_on_after(KILL_WAIT_S):
        while alive:
            cgroup.kill(group)
            _signal_all(alive, signal.SIGKILL)
            with trio.move_on_after(POLL_S):
                await _all_gone(alive)
            alive = left()
    survivors = left()
    cgroup.remove(group)
    return len(seen.difference(survivors)), len(survivors)


def eldest(tag: str, group: str = "") -> ProcessIdentity | None:
    """The first process of those that carry a tag, or are in a control group, or descend from
    one that does or is."""
    alive = processes.family([], _marker(tag), partial(cgroup.members, group))
    if not alive:
        return None
    pid, start_time = min(alive, key=lambda identity: (identity[1], identity[0]))
    return ProcessIdentity(pid=pid, start_time=start_time)


async def _wait_on_pidfd(identity: ProcessIdentity) -> None:
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, a sandbox, or no descriptors left
        await _wait_by_looking(identity)
        return
    try:
        if is_alive(identity):
            await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)


async def _wait_by_looking(identity: ProcessIdentity) -> None:
    while is_alive(identity):  # noqa: ASYNC110 - the kernel has no event to wait for here
        await trio.sleep(POLL_S)


async def _wait_on_kqueue(identity: ProcessIdentity) -> None:
    if sys.platform == "linux":
        raise AssertionError("Linux has pidfds")
    queue = trio.lowlevel.current_kqueue()

    def event(flags: int) -> Any:
        return select.kevent(identity.pid, select.KQ_FILTER_PROC, flags, fflags=select.KQ_NOTE_EXIT)

    try:
        queue.control([event(select.KQ_EV_ADD | select.KQ_EV_ONESHOT)], 0)
    except ProcessLookupError:
        return
    if not is_alive(identity):
        queue.control([event(select.KQ_EV_DELETE)], 0)
        return

    def abort(_: object) -> trio.lowlevel.Abort:
        queue.control([event(select.KQ_EV_DELETE)], 0)
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_kevent(identity.pid, select.KQ_FILTER_PROC, abort)


async def _all_gone(identities: list[processes.Identity]) -> None:
    async with trio.open_nursery() as nursery:
        for pid, start_time in identities:
            nursery.start_soon(wait_for_exit, ProcessIdentity(pid=pid, start_time=start_time))


def _signal_all(identities: list[processes.Identity], number: int) -> None:
    for identity in identities:
        processes.signal_if_same(identity, number)


def _pair(identity: ProcessIdentity) -> processes.Identity:
    return identity.pid, identity.start_time


def _marker(tag: str) -> bytes:
    return b"ORCHESTRATOR_STEM=" + os.fsencode(tag)
