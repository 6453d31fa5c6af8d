"""``audit``: is everything that was dispatched and paid for accounted for?"""

import argparse
from collections.abc import Sequence

from drivers.cli.context import Context
from drivers.cli.status import look
from orchestrator.core.errors import ExitStatus
from orchestrator.core.state import Lease
from orchestrator.views.status import EventsAudit, LaneAudit

HELP = """Check a run's books: every dispatch is recorded, ended otherwise, or in live hands, and
every model call ran on the lane of its work item.  Exit status 1 where they are not clean."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace, ctx: Context) -> int:
    del args
    store, state = ctx.read()
    status = look(store, state, ctx.now())
    events, lanes = status.events_audit, status.lane_audit
    is_clean = events.clean and lanes.clean
    ctx.result(
        {"run_id": status.run_id, "clean": is_clean, "events_audit": events, "lane_audit": lanes},
        "\n".join([*dispatch_lines(events, list(state.in_flight.values())), *lane_lines(lanes)]),
    )
    return ExitStatus.DONE if is_clean else ExitStatus.REFUSED


def dispatch_lines(audit: EventsAudit, out: Sequence[Lease] = ()) -> list[str]:
    lines = [
        f"dispatches  {'clean' if audit.clean else 'NOT CLEAN'}: {audit.dispatched} dispatched,"
        f" {audit.recorded} recorded, {audit.outstanding} outstanding",
        f"            {audit.superseded} superseded, {audit.abandoned} abandoned,"
        f" {audit.results_rejected} results rejected, {audit.attempts_spent} attempts spent",
    ]
    if audit.reclaimed:
        how = ", ".join(f"{n} {how}" for how, n in audit.reclaimed_by.items() if n)
        lines.append(f"            {audit.reclaimed} taken up after a restart: {how}")
    held = [each for each in out if each.work_item_id not in audit.orphaned]
    for who, leases in (
        ("out by hand", [each for each in held if each.is_interactive]),
        ("in live hands", [each for each in held if not each.is_interactive]),
    ):
        if leases:
            lines.append(f"            {who}: {', '.join(each.work_item_id for each in leases)}")
    if audit.orphaned:
        lines.append(f"            nobody owns {', '.join(audit.orphaned)}: run-headless goes on")
    return lines


def lane_lines(audit: LaneAudit) -> list[str]:
    by = ", ".join(f"{n} on {lane}" for lane, n in audit.by_lane.items()) or "none"
    return [
        f"calls       {'clean' if audit.clean else 'NOT CLEAN'}: {audit.total_calls} ({by}),"
        f" {audit.unattributed} unattributed"
    ]
