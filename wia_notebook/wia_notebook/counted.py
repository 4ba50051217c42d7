"""What a live run counted along the lines of PTX, SASS and cell, as the explorer shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from wia_notebook.views.line_counts import LineCounts, LineMetric

if TYPE_CHECKING:
    from wia_compiler.profiler.lines import LineRow
    from wia_compiler.profiler.profile import Profile

_TITLES: Mapping[str, str] = {
    "ptx_inst_executed": "warp instructions",
    "ptx_thread_inst_executed": "thread instructions",
    "flops": "FLOPs",
    "global_sectors": "global sectors",
    "global_sectors_excessive": "excess sectors",
    "local_sectors": "local sectors",
    "shared_wavefronts": "shared wavefronts",
    "shared_bank_conflicts": "bank conflicts",
    "branches_divergent": "divergent branches",
}
"""The simulator's columns that have bars, in the order in which they are offered."""

_PREDICTED: Mapping[str, str] = {"sass_inst_predicted": "warp instructions"}


def line_counts_of(profile: Profile) -> dict[str, LineCounts]:
    """The counts of a simulated GPU run by format, those of the ``cell`` among them; else nothing.

    What several lines of the cell became together counts for the first of them.
    """
    if profile.source != "simulated" or not profile.target.startswith("gpu"):
        return {}
    lines = profile.lines
    counts = {
        "ptx": LineCounts("simulated", _metrics(_TITLES, lines.rows)),
        "cell": LineCounts("simulated", _metrics(_TITLES, lines.by_source().rows)),
    }
    if lines.sass:
        counts["sass"] = LineCounts("predicted", _metrics(_PREDICTED, lines.by_sass().rows))
    return counts


def _metrics(titles: Mapping[str, str], rows: Iterable[LineRow]) -> list[LineMetric]:
    found: dict[str, dict[int, float]] = {title: {} for title in titles.values()}
    for row in rows:
        for column, title in titles.items():
            found[title][row.line] = found[title].get(row.line, 0) + (row.counts[column] or 0)
    return [LineMetric(title, values) for title, values in found.items()]
