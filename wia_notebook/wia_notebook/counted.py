"""What a live run counted along the lines of the PTX and of the cell, as the explorer shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wia_notebook.views.line_counts import LineCounts, LineMetric

if TYPE_CHECKING:
    from wia_compiler.runtime.build import Build

_METRICS: Sequence[tuple[str, Callable[[Any], float]]] = (
    ("warp instructions", lambda row: row.warps),
    ("thread instructions", lambda row: row.threads),
    ("FLOPs", lambda row: row.flops),
    ("global sectors", lambda row: _traffic(row, "sectors")),
    ("excess sectors", lambda row: _traffic(row, "sectors") - _traffic(row, "ideal_sectors")),
    ("shared wavefronts", lambda row: _traffic(row, "wavefronts")),
    ("bank conflicts", lambda row: _traffic(row, "wavefronts") - _traffic(row, "ideal_wavefronts")),
    ("divergent branches", lambda row: row.divergent_branches),
)


def _traffic(row: Any, what: str) -> int:
    return sum(getattr(each, what) for each in row.traffic.values())


def line_counts_of(build: Build) -> dict[str, LineCounts]:
    """The counts of a build's last run by format; nothing where no simulator ran.

    What several lines of the cell became together counts for the first of them.
    """
    ran: Sequence[Any] = getattr(build.executable, "last_run", ())
    if not ran or not hasattr(ran[0].done, "lines"):
        return {}
    spans = build.stage("ptx").line_spans
    texts: dict[str, list[LineMetric]] = {"ptx": [], "cell": []}
    for title, value in _METRICS:
        ptx: dict[int, float] = {}
        cell: dict[int, float] = {}
        for each in ran:
            for line, row in each.done.lines.items():
                ptx[line] = ptx.get(line, 0) + value(row)
                for span in spans.get(line, ())[:1]:
                    cell[span.line] = cell.get(span.line, 0) + value(row)
        texts["ptx"].append(LineMetric(title, ptx))
        texts["cell"].append(LineMetric(title, cell))
    return {name: LineCounts("simulated", metrics) for name, metrics in texts.items()}
