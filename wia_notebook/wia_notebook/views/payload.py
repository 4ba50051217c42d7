"""The record as the browser gets it: one JSON value, each text once, long ones when asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from wia_compiler.base.record import OpRow, Stage
from wia_compiler.base.source import Span

from wia_notebook import theme
from wia_notebook.views import (
    decisions,
    graph,
    highlight,
    line_counts,
    opcodes,
    resources,
    ribbon,
    roofline,
    units,
)
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.nest_html import nest_of
from wia_notebook.views.stage_graphs import Picture, StagePictures

MAX_LINES = 20_000
"""Lines of one text that are sent; the record and the report have them all."""

LATER_CHARACTERS = 48_000
"""A longer text is sent when it is first looked at, so that the first drawing does not wait."""

FORMAT_TITLES = {
    "llvm": "LLVM",
    "x86": "x86",
    "aarch64": "AArch64",
    "ptx": "PTX",
    "sass": "SASS",
    "tpu": "TPU",
}


def payload(exhibit: Exhibit) -> dict[str, Any]:
    """Everything the explorer shows, JSON-ready."""
    trace = exhibit.trace
    drawn = exhibit.pictures
    spans = _SpanTable()
    befores = [None, *trace.stages[:-1]]
    stages = [
        _stage(stage, step, drawn.get(stage.name), before, spans)
        for stage, step, before in zip(trace.stages, ribbon.steps(trace), befores, strict=True)
    ]
    return {
        "kernel": trace.kernel,
        "signature": exhibit.header,
        "target": trace.target,
        "targets": list(exhibit.targets),
        "kernels": list(exhibit.kernels),
        "origin": exhibit.origin,
        "hint": exhibit.hint,
        "source": trace.source,
        "stages": stages,
        "assembly": _assembly(exhibit, spans),
        "opcodes": _explanations(exhibit),
        "resources": resources_payload(exhibit.resources),
        "roofline": roofline_payload(exhibit.roofline),
        "schedule": {"text": exhibit.schedule, "own": exhibit.own_schedule},
        "counts": line_counts.payload(exhibit.counts.get("cell")),
        "spans": spans.rows,
        "legend": list(theme.FAMILY_TITLES.items()),
    }


def _stage(
    stage: Stage,
    step: ribbon.Step,
    drawn: StagePictures | None,
    before: Stage | None,
    spans: _SpanTable,
) -> dict[str, Any]:
    """A stage that changed nothing names the one before it instead of repeating it."""
    table = decisions.decision_table(stage.decisions)
    made: dict[str, Any] = {
        "name": stage.name,
        "title": step.title,
        "level": step.level,
        "language": stage.language,
        "detail": step.detail,
        "time": step.time,
        "changed": stage.changed,
        "decisions": {
            "columns": table.columns,
            "rows": table.rows,
            "taken": table.taken,
            "short": table.short,
            "subjects": [decision.subjects for decision in stage.decisions],
        },
    }
    if before is not None and not stage.changed and stage.text == before.text:
        return made | {"same": before.name}
    # Below the mid level a table of ops tells no more than the lines do.
    rows = stage.ops if stage.level in ("source", "high", "mid") else ()
    made |= {
        **_text(stage.text),
        "ops": [_op(row, spans) for row in rows],
        "lines": spans.runs(stage.line_spans),
    }
    if drawn is not None:
        made["graph"] = _picture(drawn.graph, stage)
        if drawn.plan is not None:
            made["plan"] = {"svg": drawn.plan.svg, "counts": drawn.plan.counts}
    elif stage.level == "mid" and stage.ops:
        made["nest"] = nest_of(stage)
    return made


def _picture(picture: Picture, stage: Stage) -> dict[str, Any]:
    made: dict[str, Any] = {"svg": picture.svg, "counts": picture.counts}
    if picture.note:
        made["note"] = picture.note
        made["summary"] = graph.summary_rows(stage)
    return made


def _op(row: OpRow, spans: _SpanTable) -> list[Any]:
    """A row as links.js names its places: id, name, label, family, type, spans, origins, …"""
    return [
        row.id,
        row.name,
        row.label,
        row.family,
        units.type_text(row.result_type),
        [spans.index(span) for span in row.spans],
        row.origins,
        row.parent,
        row.line,
        units.scaled(row.flops, "FLOP") if row.flops else "",
        units.size(row.size_bytes) if row.size_bytes else "",
    ]


class _SpanTable:
    """Source spans by number: a listing of many lines names few of them."""

    def __init__(self) -> None:
        self.rows: list[Span] = []
        self._numbers: dict[Span, int] = {}
        self._lists: dict[Sequence[Span], list[int]] = {}

    def index(self, span: Span) -> int:
        """The number of a span."""
        number = self._numbers.setdefault(span, len(self.rows))
        if number == len(self.rows):
            self.rows.append(span)
        return number

    def runs(self, line_spans: Mapping[int, Sequence[Span]]) -> list[tuple[int, int, list[int]]]:
        """(first line, last line, span numbers) of lines that follow each other and share spans."""
        made: list[tuple[int, int, list[int]]] = []
        for line in sorted(line_spans):
            spans = line_spans[line]
            numbers = self._lists.get(spans)
            if numbers is None:
                numbers = self._lists[spans] = [self.index(span) for span in spans]
            if made and made[-1][1] == line - 1 and made[-1][2] == numbers:
                made[-1] = (made[-1][0], line, numbers)
            elif numbers:
                made.append((line, line, numbers))
        return made


def _text(text: str) -> dict[str, Any]:
    """The text itself, or how many lines there are to ask for."""
    if len(text) > LATER_CHARACTERS:
        return {"later": units.plural(len(text.splitlines()), "line")}
    return {"text": text}


def later_text(exhibit: Exhibit, name: str) -> str:
    """The text of a stage or format that ``payload`` left out."""
    stages = {stage.name: stage.text for stage in exhibit.trace.stages}
    return _cut({**exhibit.assembly, **stages}[name])


def _cut(text: str) -> str:
    lines = text.split("\n", MAX_LINES)
    if len(lines) <= MAX_LINES:
        return text
    left = lines.pop().count("\n") + 1
    return "\n".join([*lines, f"… {left} more lines: export JSON or report.html to see them"])


def _assembly(exhibit: Exhibit, spans: _SpanTable) -> list[dict[str, Any]]:
    """One pane for each format; a text that a stage already holds is named, not sent again."""
    stages = {stage.name: stage for stage in exhibit.trace.stages}
    panes: list[dict[str, Any]] = []
    for name, text in exhibit.assembly.items():
        stage = stages.get(name)
        pane: dict[str, Any] = {
            "format": name,
            "title": FORMAT_TITLES.get(name, name),
            "language": stage.language if stage is not None else name,
            "count": units.plural(len(text.splitlines()), "line"),
            "counts": line_counts.payload(exhibit.counts.get(name)),
        }
        if name in exhibit.made_of:
            of, lines = exhibit.made_of[name]
            pane["madeOf"] = {"format": of, "lines": sorted(lines.items())}
        if stage is not None and stage.text == text:
            pane["stage"] = name
        else:
            pane |= _text(text)
            pane["lines"] = spans.runs(stage.line_spans) if stage is not None else []
        panes.append(pane)
    return panes


def _explanations(exhibit: Exhibit) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, text in exhibit.assembly.items():
        if name in opcodes.WORDS:
            used = {highlight.opcode(name, line) for line in text.splitlines()[:5000]}
            found[name] = opcodes.explanations(name, sorted(used - {""}))
    return found


def resources_payload(values: Mapping[str, Any]) -> dict[str, Any]:
    """Gauges, rows and the table of entries."""
    head, cells = resources.entry_table(values)
    return {
        "gauges": [
            {
                "label": g.label,
                "value": g.value,
                "of": g.of,
                "fraction": g.fraction,
                "warning": g.warning,
            }
            for g in resources.gauges(values)
        ],
        "rows": resources.rows(values),
        "entries": {"columns": head, "rows": cells},
    }


def roofline_payload(shown: roofline.Roofline | None) -> dict[str, Any] | None:
    """The picture and its numbers, once the kernel ran."""
    if shown is None:
        return None
    return {
        "svg": roofline.roofline_svg(shown),
        "headline": shown.headline,
        "rows": roofline.rows(shown, counters=False),
        "counters": list(shown.counters),
        "advice": [dataclasses.asdict(each) for each in shown.advice],
    }
