"""What a run did on each line: three columns of instructions, and the traffic of memory.

Instructions are never of one kind: those of the PTX were **simulated**, those of the SASS
**predicted** (its text × the simulated counts of its lines), or **measured** by a GPU's counters.
Every column says which it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from wia_compiler.backends.gpu.sass_table import SassRow
from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Span
from wia_compiler.profiler.sass_counts import (
    PREDICATED,
    Predicted,
    made_predicates,
    predict,
)
from wia_compiler.simulators.ptx.counters import LineCounts
from wia_compiler.simulators.ptx.flow import Flow

Count = int | float | None

COLUMNS: Mapping[str, str] = {
    "ptx_inst_executed": "simulated",
    "ptx_thread_inst_executed": "simulated",
    "ptx_thread_inst_executed_pred_on": "simulated",
    "flops": "simulated",
    "global_requests": "simulated",
    "global_sectors": "simulated",
    "global_sectors_excessive": "simulated",
    "local_sectors": "simulated",
    "shared_requests": "simulated",
    "shared_wavefronts": "simulated",
    "shared_bank_conflicts": "simulated",
    "branches": "simulated",
    "branches_divergent": "simulated",
    "sass_instructions": "ptxas",
    "sass_inst_predicted": "predicted",
    "sass_inst_measured": "measured",
}
"""What is counted on a line, and who says so."""
_SHOWN = (
    "ptx_inst_executed", "sass_inst_predicted", "sass_inst_measured", "global_sectors",
    "shared_wavefronts", "shared_bank_conflicts", "branches_divergent",
)  # fmt: skip


@dataclass(frozen=True)
class LineRow:
    """Counts of one line, by the names of ``COLUMNS``; ``None`` where a column is not available.

    ``line`` counts from 1; it is 0 for what no line of the source is known of. ``source_lines`` are
    all lines of the source that it came from, ``notes`` say where a prediction is a guess.
    """

    line: int
    text: str
    counts: Mapping[str, Count]
    spans: tuple[Span, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def source_lines(self) -> tuple[int, ...]:
        """The lines of the source, in their order."""
        return tuple(sorted({span.line for span in self.spans}))

    def __getitem__(self, column: str) -> Count:
        if column not in COLUMNS:
            raise ArgumentError(f"no column {column!r}: expected one of {', '.join(COLUMNS)}")
        return self.counts[column]

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "line": self.line,
            "text": self.text,
            "source_lines": list(self.source_lines),
            "spans": [list(span) for span in self.spans],
            **self.counts,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class LineTable:
    """Rows of one text: ``of`` is ``ptx``, ``source`` or ``sass``.

    ``unavailable`` says why a column has no numbers.
    """

    of: str
    rows: tuple[LineRow, ...]
    source: str = ""
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    sass: tuple[LineRow, ...] = ()

    @property
    def columns(self) -> Mapping[str, str]:
        """Who says what stands in a column: simulated, ptxas, predicted or measured."""
        return COLUMNS

    @property
    def totals(self) -> dict[str, Count]:
        """The sum of each column, ``None`` where it is not available."""
        return {name: _sum(row.counts[name] for row in self.rows) for name in COLUMNS}

    def row(self, line: int) -> LineRow:
        """The row of a line; ``ArgumentError`` where nothing was counted there."""
        for each in self.rows:
            if each.line == line:
                return each
        raise ArgumentError(f"nothing was counted on line {line} of the {self.of}")

    def by_source(self) -> LineTable:
        """The same counts by line of the source.

        What came from several lines (fused statements) has a row of its own that names them all, so
        that the sum over rows is the sum of the run.
        """
        grouped: dict[tuple[int, ...], list[LineRow]] = {}
        for row in self.rows:
            grouped.setdefault(row.source_lines, []).append(row)
        texts = self.source.splitlines()
        rows = [_source_row(lines, grouped[lines], texts) for lines in sorted(grouped)]
        return LineTable("source", tuple(rows), self.source, self.unavailable)

    def by_sass(self) -> LineTable:
        """What each instruction of the SASS is predicted to do, and did, by line of its text."""
        return LineTable("sass", self.sass, self.source, self.unavailable)

    def __str__(self) -> str:
        """A table of the columns that have numbers, the heaviest lines marked by their counts."""
        totals = self.totals
        shown = [name for name in _SHOWN if totals[name] or name == "ptx_inst_executed"]
        head = ["line", *(f"{name} ({COLUMNS[name]})" for name in shown), self.of]
        body = [
            [
                ", ".join(map(str, row.source_lines)) if self.of == "source" else str(row.line),
                *(_number(row.counts[name]) for name in shown),
                row.text + "".join(f"  [{note}]" for note in row.notes),
            ]
            for row in self.rows
        ]
        body.append(["sum", *(_number(totals[name]) for name in shown), ""])
        widths = [max(len(row[at]) for row in (head, *body)) for at in range(len(head) - 1)]
        lines = [
            "  ".join(
                [*(c.rjust(w) for c, w in zip(row[:-1], widths, strict=True)), row[-1]]
            ).rstrip()
            for row in (head, *body)
        ]
        return "\n".join(lines + [f"{name}: {why}" for name, why in self.unavailable.items()])

    def to_data(self) -> dict[str, Any]:
        """Plain data: columns with their sources, rows, totals."""
        return {
            "of": self.of,
            "columns": dict(COLUMNS),
            "rows": [row.to_data() for row in self.rows],
            "totals": self.totals,
            "unavailable": dict(self.unavailable),
        }

    def to_json(self) -> str:
        """``to_data`` as text."""
        return json.dumps(self.to_data(), ensure_ascii=False)


class Counted(Protocol):
    """One launch of a simulated run."""

    @property
    def lines(self) -> Mapping[int, LineCounts]:
        """Counts by line of the PTX."""
        ...

    @property
    def flow(self) -> Flow | None:
        """How it went through its code."""
        ...


def line_table(
    ptx: str,
    launches: Sequence[tuple[str, Counted]],
    *,
    spans: Mapping[int, tuple[Span, ...]] | None = None,
    source: str = "",
    sass: Sequence[SassRow] = (),
    measured: Mapping[tuple[str, int], int] | None = None,
    unavailable: Mapping[str, str] | None = None,
) -> LineTable:
    """The table of a run's PTX lines.

    ``launches`` are (entry, counts) of a simulated run, ``spans`` places of the source by line of
    the PTX, ``sass`` the rows of all entries, ``measured`` warps that executed an instruction, by
    entry and offset. ``unavailable`` says why ``sass`` or ``measured`` are absent, by column.
    """
    texts = ptx.split("\n")
    places = spans or {}
    counted: dict[int, LineCounts] = {}
    for _, launch in launches:
        for number, line in launch.lines.items():
            counted[number] = counted[number] + line if number in counted else line
    predicted = predicted_rows(sass, launches)
    by_line: dict[int, list[Predicted]] = {}
    for each in predicted:
        if each.row.ptx_line is not None:
            by_line.setdefault(each.row.ptx_line, []).append(each)
    rows: list[LineRow] = []
    for number in sorted({*counted, *by_line}):
        found = by_line.get(number, [])
        line = counted.get(number, LineCounts(""))
        notes = {note: None for each in found for note in each.notes}
        if sass and made_predicates(line, (each.row for each in found)):
            notes[PREDICATED] = None
        counts: dict[str, Count] = {**simulated_counts(line), **_sass_counts(found, measured, sass)}
        text = texts[number - 1].strip() if number <= len(texts) else ""
        rows.append(LineRow(number, text, counts, places.get(number, ()), tuple(notes)))
    listed = tuple(_sass_row(each, measured) for each in predicted)
    return LineTable("ptx", tuple(rows), source, unavailable or {}, listed)


def predicted_rows(
    sass: Sequence[SassRow], launches: Iterable[tuple[str, Counted]]
) -> list[Predicted]:
    """How often each row of the SASS would run in all launches of its entry together."""
    entries: dict[str, list[SassRow]] = {}
    for row in sass:
        entries.setdefault(row.entry, []).append(row)
    found: dict[tuple[str, int], Predicted] = {}
    for entry, launch in launches:
        for each in predict(entries.get(entry, ()), launch.lines, launch.flow):
            key = (entry, each.row.offset)
            before = found.get(key)
            warps = each.warps + (before.warps if before is not None else 0.0)
            notes = dict.fromkeys((*(before.notes if before is not None else ()), *each.notes))
            found[key] = Predicted(each.row, warps, tuple(notes))
    return [found.get((row.entry, row.offset), Predicted(row, 0.0)) for row in sass]


def simulated_counts(line: LineCounts) -> dict[str, Count]:
    """What the simulator counted on a line, by the names of ``COLUMNS``."""
    memory, local, shared = (line.traffic.get(each) for each in ("global", "local", "shared"))
    return {
        "ptx_inst_executed": line.warps,
        "ptx_thread_inst_executed": line.threads,
        "ptx_thread_inst_executed_pred_on": line.predicated_on,
        "flops": line.flops,
        "global_requests": memory.requests if memory else 0,
        "global_sectors": memory.sectors if memory else 0,
        "global_sectors_excessive": max(0, memory.sectors - memory.ideal_sectors) if memory else 0,
        "local_sectors": local.sectors if local else 0,
        "shared_requests": shared.requests if shared else 0,
        "shared_wavefronts": shared.wavefronts if shared else 0,
        "shared_bank_conflicts": shared.wavefronts - shared.ideal_wavefronts if shared else 0,
        "branches": line.branches,
        "branches_divergent": line.divergent_branches,
    }


def _sass_counts(
    found: Sequence[Predicted],
    measured: Mapping[tuple[str, int], int] | None,
    sass: Sequence[SassRow],
) -> dict[str, Count]:
    counts: dict[str, Count] = {
        "sass_instructions": len(found) if sass else None,
        "sass_inst_predicted": sum(each.warps for each in found) if sass else None,
        "sass_inst_measured": None,
    }
    if measured is not None and sass:
        keys = ((each.row.entry, each.row.offset) for each in found)
        counts["sass_inst_measured"] = sum(measured.get(key, 0) for key in keys)
    return counts


def _sass_row(each: Predicted, measured: Mapping[tuple[str, int], int] | None) -> LineRow:
    counts: dict[str, Count] = dict.fromkeys(COLUMNS)
    counts |= {"sass_instructions": 1, "sass_inst_predicted": each.warps}
    row = each.row
    if measured is not None:
        counts["sass_inst_measured"] = measured.get((row.entry, row.offset), 0)
    return LineRow(row.line, row.text, counts, row.spans, each.notes)


def _source_row(lines: tuple[int, ...], rows: Sequence[LineRow], texts: Sequence[str]) -> LineRow:
    counts = {name: _sum(row.counts[name] for row in rows) for name in COLUMNS}
    first = lines[0] if lines else 0
    text = texts[first - 1].strip() if 0 < first <= len(texts) else "(no line of the source)"
    spans = dict.fromkeys(span for row in rows for span in row.spans)
    notes = dict.fromkeys(note for row in rows for note in row.notes)
    return LineRow(first, text, counts, tuple(spans), tuple(notes))


def _sum(counts: Iterable[Count]) -> Count:
    """A sum; ``None`` where no number is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _number(count: Count) -> str:
    return "–" if count is None else f"{count:.0f}"
