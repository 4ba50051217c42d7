"""Rows as text: while they come, and as the table of docs/measurements.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from measure import Row, Timing
from wia_compiler.profiler.ceilings import Ceilings


def lines_of(row: Row) -> str:
    """A workload with one line a contender, fastest first."""
    work = row.workload
    lines = [work.name]
    for name, timing in sorted(row.timings.items(), key=lambda item: item[1].median):
        rates = (
            f"{work.flops / timing.median / 1e9:7.1f} GFLOP/s "
            f"{work.size_bytes / timing.median / 1e9:6.1f} GB/s"
        )
        ours = (
            f"  {row.ratio:.2f} x the best peer, goal {work.goal:g}" if _is_ours(name, row) else ""
        )
        lines.append(
            f"  {name:14}{_time(timing):>11}  [{seconds_text(timing.lower)} … "
            f"{seconds_text(timing.upper)}] best {seconds_text(timing.best)}  {rates}{ours}"
        )
    lines += [f"  {name:14} {reason}" for name, reason in row.faults.items()]
    return "\n".join(lines)


def _is_ours(name: str, row: Row) -> bool:
    return name == "wia" and row.ratio is not None


def table_of(rows: Sequence[Row], names: Sequence[str], limits: Ceilings) -> str:
    """The Markdown table: a row a workload, a column a contender, and where we stand.

    Ours is also given as a share of the limit of this machine that is nearer: f32 arithmetic, or
    the memory that holds the arrays.
    """
    heads = ["workload", *names, "best peer ÷ ours", "goal", "ours: best", "quartiles"]
    heads += ["GFLOP/s", "GB/s", "of the limit"]
    table = [heads, ["---"] * len(heads)]
    for row in rows:
        cells = [row.workload.name]
        cells += [_time(row.timings[name]) if name in row.timings else "–" for name in names]
        table.append([*cells, *_ours(row, limits)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in table)


def _ours(row: Row, limits: Ceilings) -> list[str]:
    timing, work = row.timings.get("wia"), row.workload
    if timing is None:
        return ["–", f"{work.goal:g}", *["–"] * 5]
    flops, rate = work.flops / timing.median, work.size_bytes / timing.median
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    quartiles = f"{seconds_text(timing.lower)} … {seconds_text(timing.upper)}"
    return [
        ratio,
        f"{work.goal:g}",
        seconds_text(timing.best),
        quartiles,
        f"{flops / 1e9:.1f}",
        f"{rate / 1e9:.1f}",
        _share(flops, rate, work.size_bytes, limits),
    ]


def _share(flops: float, rate: float, size_bytes: int, limits: Ceilings) -> str:
    """``82 % of FMA``: the larger of the shares of arithmetic and of memory."""
    shares: list[tuple[float, str]] = []
    for limit, reached in ((limits.rate_for("f32"), flops), (limits.memory_for(size_bytes), rate)):
        if limit is not None:
            shares.append((reached / limit.value, limit.name))
    share, name = max(shares, default=(0.0, ""))
    return f"{100 * share:.0f} % of {name}" if name else "–"


def row_as_json(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    return {
        "workload": row.workload.name,
        "timings": {name: vars(timing) for name, timing in row.timings.items()},
        "faults": dict(row.faults),
        "ratio": row.ratio,
        "goal": row.workload.goal,
    }


def _time(timing: Timing) -> str:
    return ("~" if timing.soft else "") + seconds_text(timing.median)


def seconds_text(seconds: float) -> str:
    """``2.31 µs``, ``1.42 ms``, ``1.2 s``."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
