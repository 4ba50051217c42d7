"""The explorer as plain text: what a terminal, a log or a screen reader gets."""

from __future__ import annotations

from collections.abc import Sequence

from wia_notebook.views import decisions, resources, ribbon
from wia_notebook.views.exhibit import Exhibit


def plain_text(exhibit: Exhibit) -> str:
    """Head, stages, decisions, resources and where the kernel stands."""
    trace = exhibit.trace
    facts = ", ".join(part for part in (trace.target, exhibit.origin) if part)
    lines = [f"{trace.kernel}{exhibit.header}"]
    lines += [f"  {facts}", ""]
    rows = [(s.opens_level, s.title, s.detail, s.time) for s in ribbon.steps(trace)]
    lines += columns([("level", "stage", "what it did", "time"), *rows])
    if trace.decisions:
        lines += ["", "decisions"]
        lines += [f"  {d.candidate}: {decisions.verdict(d)}" for d in trace.decisions]
    gauges = resources.gauges(exhibit.resources)
    if gauges:
        lines += ["", "resources"]
        lines += [f"  {g.label}: {g.value} {g.of}".rstrip() for g in gauges]
    if exhibit.roofline is not None:
        lines += ["", f"roofline: {exhibit.roofline.headline}"]
    if exhibit.hint:
        lines += ["", exhibit.hint]
    return "\n".join(lines)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with each column as wide as its widest cell."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
