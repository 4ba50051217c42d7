"""The record as the browser gets it: one JSON value, each text once, nothing to ask for later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wia_compiler.base.record import OpRow, Stage
from wia_compiler.base.source import Span
from wia_notebook.views import (
    decisions,
    graph,
    highlight,
    opcodes,
    resources,
    ribbon,
    roofline,
    units,
)
from wia_notebook.views.exhibit import Exhibit
from wia_notebook.views.nest_html import nest_of
from wia_notebook.views.stage_graphs import StagePictures, pictures

FORMAT_TITLES = {
    "llvm": "LLVM",
    "x86": "x86",
    "ptx": "PTX",
    "sass": "SASS",
    "tpu": "TPU",
}


def payload(exhibit: Exhibit, *, engine: str | None = None) -> dict[str, Any]:
    """Everything the explorer shows, JSON-ready."""
    trace = exhibit.trace
    drawn = pictures(trace, exhibit.outputs, engine=engine)
    befores = [None, *trace.stages[:-1]]
    stages = [
        _stage(stage, step, drawn.get(stage.name), before)
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
        "assembly": _assembly(exhibit),
        "opcodes": _explanations(exhibit),
        "resources": resources_payload(exhibit.resources),
        "roofline": roofline_payload(exhibit.roofline),
    }


def _stage(
    stage: Stage, step: ribbon.Step, drawn: StagePictures | None, before: Stage | None
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
    made |= {
        "text": stage.text,
        "ops": [_op(row) for row in stage.ops],
        "lines": _lines(stage.line_spans),
    }
    if drawn is not None:
        made["graph"] = _picture(drawn.graph, stage)
        if drawn.plan is not None:
            made["plan"] = {"svg": drawn.plan.svg, "counts": drawn.plan.counts}
    elif stage.level == "mid" and stage.ops:
        made["nest"] = nest_of(stage)
    return made


def _picture(picture: Any, stage: Stage) -> dict[str, Any]:
    made: dict[str, Any] = {"svg": picture.svg, "counts": picture.counts}
    if picture.note:
        made["note"] = picture.note
        made["summary"] = graph.summary_rows(stage)
    return made


def _op(row: OpRow) -> list[Any]:
    """[id, name, label, family, type, spans, origins, parent, line, flops, bytes, operands]"""
    return [
        row.id,
        row.name,
        row.label,
        row.family,
        units.type_text(row.result_type),
        [list(span) for span in row.spans],
        row.origins,
        row.parent,
        row.line,
        units.scaled(row.flops, "FLOP") if row.flops else "",
        units.size(row.size_bytes) if row.size_bytes else "",
        row.operands,
    ]


def _lines(line_spans: Mapping[int, Sequence[Span]]) -> dict[str, list[list[int]]]:
    return {str(line): [list(span) for span in spans] for line, spans in line_spans.items() if spans}


def _assembly(exhibit: Exhibit) -> list[dict[str, Any]]:
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
        }
        if stage is not None and stage.text == text:
            pane["stage"] = name
        else:
            pane["text"] = text
            pane["lines"] = _lines(stage.line_spans) if stage is not None else {}
        panes.append(pane)
    return panes


def _explanations(exhibit: Exhibit) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, text in exhibit.assembly.items():
        if name in opcodes.WORDS:
            used = {highlight.opcode(name, line) for line in text.splitlines()[:20000]}
            found[name] = opcodes.explanations(name, sorted(used - {""}))
    return found


def resources_payload(values: Mapping[str, Any]) -> dict[str, Any]:
    """Gauges, rows and the table of entries."""
    head, cells = resources.entry_table(values)
    return {
        "gauges": [
            {"label": g.label, "value": g.value, "of": g.of, "fraction": g.fraction, "warning": g.warning}
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
        "rows": roofline.rows(shown),
        "advice": list(shown.advice),
    }
