"""The cost report: the books grouped as asked for, as rows, as a table, as CSV.

Invariant: whatever it is grouped by, the rows sum to the total, and the total is the ledger's.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import fields

import msgspec

from orchestrator.views.cost_books import NANOS, CostBooks, Key, Sums, Waste
from orchestrator.views.moments import duration
from orchestrator.views.text import cut

VERSION = 1
BY = Key._fields
NAME_WIDTH_MAX = 40


class CostLine(msgspec.Struct, kw_only=True):
    """Null: not grouped by that."""

    task: str | None = None
    stage: str | None = None
    model: str | None = None
    effort: str | None = None
    """Empty: the client's own."""
    waste: Waste | None = None
    calls: int
    """One with several models counts at the one that cost most."""
    cost_usd: float
    share: float
    """Of the total, 0 to 1."""
    unmetered_calls: int
    unmetered_usd: float
    """What of it is estimated."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cache_hit_rate: float | None
    """Of the prompt's tokens, 0 to 1; null without any."""
    wall_s: float


class CostReport(msgspec.Struct, kw_only=True):
    v: int = VERSION
    run_id: str
    by: tuple[str, ...]
    rows: tuple[CostLine, ...]
    """The dearest first."""
    total: CostLine
    waste: dict[Waste, float]
    """USD by class; they sum to the total."""
    wasted_share: float
    """Of the total, 0 to 1: all that was not useful."""
    at: float
    """Epoch seconds: when this was looked at."""


def cost_report(books: CostBooks, by: Sequence[str], *, run_id: str, now: float) -> CostReport:
    """``by``: any of BY, in the order of their columns."""
    groups: dict[tuple[str, ...], Sums] = {}
    wastes = {waste: Sums() for waste in Waste}
    total = Sums()
    for key, sums in books.books.items():
        groups.setdefault(tuple(getattr(key, name) for name in by), Sums()).add(sums)
        wastes[key.waste].add(sums)
        total.add(sums)
    ranked = sorted(groups.items(), key=lambda each: (-each[1].nanos, each[0]))
    return CostReport(
        run_id=run_id,
        by=tuple(by),
        rows=tuple(
            _line(sums, total, dict(zip(by, names, strict=True)))
            for names, sums in ranked
            if any(getattr(sums, figure.name) for figure in fields(Sums))
        ),
        total=_line(total, total, {}),
        waste={waste: usd(sums.nanos) for waste, sums in wastes.items()},
        wasted_share=_share(total.nanos - wastes[Waste.USEFUL].nanos, total.nanos),
        at=now,
    )


def report_text(report: CostReport) -> str:
    head = [*report.by, "calls", "usd", "share", "in", "out", "cached", "estimated", "wall"]
    body = [_cells(row, [str(getattr(row, name)) for name in report.by]) for row in report.rows]
    names = ["total", *[""] * (len(report.by) - 1)] if report.by else []
    table = [head, *body, _cells(report.total, names)]
    widths = [max(len(row[at]) for row in table) for at in range(len(head))]
    named = len(report.by)
    lines = [
        "  ".join(
            cell.ljust(width) if at < named else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    if len(body) > 0:
        lines.insert(len(lines) - 1, "-" * max(map(len, lines)))
    return "\n".join([*lines, "", _waste_line(report)])


def report_csv(report: CostReport) -> str:
    """RFC 4180: one header, then the rows; their sum is the total, which has no line."""
    figures = [name for name in CostLine.__struct_fields__ if name not in BY]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*report.by, *figures])
    for row in report.rows:
        values = [getattr(row, name) for name in (*report.by, *figures)]
        writer.writerow([f"{v:.9f}" if isinstance(v, float) else v for v in values])
    return out.getvalue()


def usd(nanos: int) -> float:
    return nanos / NANOS


def _line(sums: Sums, total: Sums, names: dict[str, str]) -> CostLine:
    prompt = sums.input_tokens + sums.cache_read_tokens + sums.cache_write_tokens
    return msgspec.convert(
        {
            **names,
            "calls": sums.calls,
            "cost_usd": usd(sums.nanos),
            "share": _share(sums.nanos, total.nanos),
            "unmetered_calls": sums.unmetered_calls,
            "unmetered_usd": usd(sums.unmetered_nanos),
            "input_tokens": sums.input_tokens,
            "output_tokens": sums.output_tokens,
            "cache_read_tokens": sums.cache_read_tokens,
            "cache_write_tokens": sums.cache_write_tokens,
            "cache_hit_rate": _share(sums.cache_read_tokens, prompt) if prompt else None,
            "wall_s": sums.wall_ms / 1000,
        },
        CostLine,
    )


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def _cells(row: CostLine, names: Sequence[str]) -> list[str]:
    prompt = row.input_tokens + row.cache_read_tokens + row.cache_write_tokens
    return [
        *(cut(name or "(the client's)", NAME_WIDTH_MAX) for name in names[:1]),
        *(cut(name, NAME_WIDTH_MAX) for name in names[1:]),
        str(row.calls),
        f"{row.cost_usd:.4f}",
        f"{row.share:.0%}",
        _thousands(prompt),
        _thousands(row.output_tokens),
        "" if row.cache_hit_rate is None else f"{row.cache_hit_rate:.0%}",
        f"{_share(row.unmetered_usd, row.cost_usd):.0%}" if row.unmetered_calls else "",
        duration(row.wall_s),
    ]


def _thousands(tokens: int) -> str:
    return f"{tokens / 1000:.1f}k" if tokens >= 1000 else str(tokens)


def _waste_line(report: CostReport) -> str:
    wasted = [
        f"{waste} {amount:.4f}"
        for waste, amount in report.waste.items()
        if waste is not Waste.USEFUL and amount
    ]
    told = f" ({', '.join(wasted)} USD)" if wasted else ""
    return f"not useful: {report.wasted_share:.0%} of it{told}"
